package benchmarks;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.IntFunction;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * An agent in Java: it does what the lines on standard input say with Redisson's locks. The orders
 * are those of benchmarks/agent.py; all of a worker's calls are made by one thread.
 */
public final class Agent {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final RedissonClient client;
  private final JsonNode opening;
  private final List<ExecutorService> threads = new ArrayList<>();
  private final List<RLock> locks;

  private Agent(JsonNode opening) throws Exception {
    var config = new Config();
    // Its default database, without the path that Redisson does not take.
    config.useSingleServer().setAddress(opening.get("url").asText().replaceFirst("/\\d+$", ""));
    client = Redisson.create(config);
    this.opening = opening;
    for (int number = 0; number < opening.get("workers").asInt(); number++) {
      threads.add(Executors.newSingleThreadExecutor());
    }
    locks = all(number -> () -> ready(number));
  }

  public static void main(String[] words) throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in));
    try {
      var agent = new Agent(JSON.readTree(input.readLine()));
      answer(Map.of());
      for (String line; (line = input.readLine()) != null; ) {
        var order = JSON.readTree(line);
        if (order.get("do").asText().equals("close")) {
          break;
        }
        answer(agent.perform(order));
      }
      agent.client.shutdown();
    } catch (Exception failure) {
      answer(Map.of("error", failure.toString()));
    }
    System.exit(0); // the workers' threads would go on
  }

  private static void answer(Map<String, ?> answer) throws Exception {
    System.out.println(JSON.writeValueAsString(answer));
  }

  /** Returns seconds of the monotonic clock that all processes of the machine share (on Linux). */
  private static double clock() {
    return System.nanoTime() / 1e9;
  }

  /** Has every worker do its work in its own thread, and returns what they have made. */
  private <T> List<T> all(IntFunction<Callable<T>> work) throws Exception {
    var futures = new ArrayList<Future<T>>();
    for (int number = 0; number < threads.size(); number++) {
      futures.add(threads.get(number).submit(work.apply(number)));
    }
    var made = new ArrayList<T>();
    for (var future : futures) {
      made.add(future.get());
    }
    return made;
  }

  private Map<String, ?> perform(JsonNode order) throws Exception {
    var first = threads.get(0);
    switch (order.get("do").asText()) {
      case "contend":
        var opens = order.get("opens").asDouble();
        var closes = order.get("closes").asDouble();
        return Map.of("workers", all(number -> () -> repeat(locks.get(number), opens, closes)));
      case "acquire":
        return Map.of("at", first.submit(() -> acquired(locks.get(0))).get());
      case "release":
        return Map.of("at", first.submit(() -> released(locks.get(0))).get());
      default:
        throw new IllegalArgumentException("cannot " + order.get("do"));
    }
  }

  private RLock ready(int number) {
    var name = opening.get("name").asText();
    var own = client.getLock(name + ":" + ProcessHandle.current().pid() + ":" + number);
    own.lock();
    own.unlock();
    return opening.get("apart").asBoolean() ? own : client.getLock(name);
  }

  private static double acquired(RLock lock) {
    lock.lock();
    return clock();
  }

  private static double released(RLock lock) {
    var at = clock();
    lock.unlock();
    return at;
  }

  private List<Double> repeat(RLock lock, double opens, double closes) throws InterruptedException {
    var work = Math.round(opening.get("work").asDouble() * 1e3);
    var times = new ArrayList<Double>();
    Thread.sleep(Math.max(0, Math.round((opens - clock()) * 1e3)));
    for (double asked; (asked = clock()) < closes; ) {
      lock.lock();
      var got = clock();
      if (work > 0) {
        Thread.sleep(work);
      }
      times.addAll(List.of(asked, got, clock()));
      lock.unlock();
    }
    return times;
  }
}
