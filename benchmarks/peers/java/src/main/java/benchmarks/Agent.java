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
  private final boolean fair;
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private RLock held;
  private JsonNode prepared;

  private Agent(String url, boolean fair) {
    var config = new Config();
    config.useSingleServer().setAddress(url);
    client = Redisson.create(config);
    this.fair = fair;
  }

  public static void main(String[] words) throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in));
    var opening = JSON.readTree(input.readLine());
    Agent agent = null;
    try {
      // Its default database, without the path that Redisson does not take.
      var url = opening.get("url").asText().replaceFirst("/\\d+$", "");
      agent = new Agent(url, opening.get("peer").asText().endsWith("fair"));
      answer(Map.of());
      for (String line; (line = input.readLine()) != null; ) {
        var order = JSON.readTree(line);
        if (order.get("do").asText().equals("close")) {
          break;
        }
        try {
          answer(agent.perform(order));
        } catch (Exception failure) {
          answer(Map.of("error", failure.toString()));
        }
      }
    } catch (Exception failure) {
      answer(Map.of("error", failure.toString()));
    } finally {
      if (agent != null) {
        agent.client.shutdown();
        agent.threads.shutdownNow();
      }
    }
  }

  private static void answer(Map<String, ?> answer) throws Exception {
    System.out.println(JSON.writeValueAsString(answer));
  }

  /** Returns seconds of the monotonic clock that all processes of the machine share (on Linux). */
  private static double clock() {
    return System.nanoTime() / 1e9;
  }

  private static void sleepUntil(double moment) throws InterruptedException {
    Thread.sleep(Math.max(0, Math.round((moment - clock()) * 1e3)));
  }

  private RLock lock(String name) {
    return fair ? client.getFairLock(name) : client.getLock(name);
  }

  private Map<String, ?> perform(JsonNode order) throws Exception {
    switch (order.get("do").asText()) {
      case "acquire":
        held = lock(order.get("name").asText());
        held.lock();
        return Map.of("at", clock());
      case "release":
        var at = clock();
        held.unlock();
        return Map.of("at", at);
      case "prepare":
        prepared = order;
        var name = order.get("name").asText();
        all(order.get("workers").asInt(), number -> () -> pair(lock(name + ":" + number)));
        return Map.of();
      case "contend":
        var opens = order.get("opens").asDouble();
        var closes = order.get("closes").asDouble();
        var workers = prepared.get("workers").asInt();
        return Map.of("workers", all(workers, number -> () -> repeat(opens, closes)));
      case "uncontended":
        return uncontended(order);
      default:
        throw new IllegalArgumentException("cannot " + order.get("do"));
    }
  }

  private static Void pair(RLock lock) {
    lock.lock();
    lock.unlock();
    return null;
  }

  /** Has every worker do its work in a thread, and returns what they have made. */
  private <T> List<T> all(int workers, IntFunction<Callable<T>> work) throws Exception {
    var futures = new ArrayList<Future<T>>();
    for (int number = 0; number < workers; number++) {
      futures.add(threads.submit(work.apply(number)));
    }
    var made = new ArrayList<T>();
    for (var future : futures) {
      made.add(future.get());
    }
    return made;
  }

  private List<double[]> repeat(double opens, double closes) throws InterruptedException {
    var lock = lock(prepared.get("name").asText());
    var work = Math.round(prepared.get("work").asDouble() * 1e3);
    var turns = new ArrayList<double[]>();
    sleepUntil(opens);
    for (double asked; (asked = clock()) < closes; ) {
      lock.lock();
      var got = clock();
      if (work > 0) {
        Thread.sleep(work);
      }
      turns.add(new double[] {asked, got, clock()});
      lock.unlock();
    }
    return turns;
  }

  private Map<String, ?> uncontended(JsonNode order) throws Exception {
    var name = order.get("name").asText();
    var workers = order.get("workers").asInt();
    all(workers, number -> () -> pair(lock(name + ":" + number)));
    var opens = clock() + order.get("warmup").asDouble();
    var seconds = order.get("seconds").asDouble();
    var counts = all(workers, number -> () -> count(lock(name + ":" + number), opens, opens + seconds));
    var counted = counts.stream().mapToLong(count -> count[0]).sum();
    var total = counts.stream().mapToLong(count -> count[1]).sum();
    return Map.of("rate", counted / seconds, "total", total);
  }

  private static long[] count(RLock lock, double opens, double closes) {
    long counted = 0;
    long total = 1;
    while (true) {
      pair(lock);
      total++;
      var now = clock();
      if (now >= closes) {
        return new long[] {counted, total};
      }
      if (now >= opens) {
        counted++;
      }
    }
  }
}
