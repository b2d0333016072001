package interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Reads one JSON command a line and answers each with one JSON line, in the order in which they end.
 *
 * <p>A command names a client, a thread and what to do; commands of one thread follow each other, those of several run side
 * by side. An answer has the command's id, its value or error, and when it started and ended, in seconds of the clock that
 * Python calls CLOCK_MONOTONIC. All durations are in seconds. The end of the input ends the process.
 */
public final class Agent {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Clients clients = new Clients();
    private final Map<String, Lane> lanes = new ConcurrentHashMap<>();
    private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private Agent() {}

    public static void main(String[] arguments) throws IOException {
        new Agent().serve(new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)));
        // Whatever still waits for a lock is not waited for.
        Runtime.getRuntime().halt(0);
    }

    private void serve(BufferedReader in) throws IOException {
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            String thread = command.get("thread").asText();
            if (command.get("do").asText().equals("interrupt")) {
                lanes.get(thread).interrupt();
                answer(command, now(), null);
                continue;
            }
            lanes.computeIfAbsent(thread, Lane::new).submit(() -> perform(command));
        }
    }

    private void perform(JsonNode command) {
        double started = now();
        try {
            answer(command, started, clients.perform(command));
        } catch (Exception | AssertionError error) {
            ObjectNode reply = reply(command, started);
            reply.put("error", error.getClass().getSimpleName());
            Throwable cause = error.getCause();
            reply.put("message", error.getMessage() + (cause == null ? "" : ", caused by " + cause));
            write(reply);
        }
    }

    private void answer(JsonNode command, double started, Object value) {
        ObjectNode reply = reply(command, started);
        reply.set("value", JSON.valueToTree(value));
        write(reply);
    }

    private static ObjectNode reply(JsonNode command, double started) {
        ObjectNode reply = JSON.createObjectNode();
        reply.set("id", command.get("id"));
        reply.put("started", started);
        reply.put("ended", now());
        reply.put("owner", Thread.currentThread().getId());
        return reply;
    }

    private synchronized void write(ObjectNode reply) {
        out.println(reply);
    }

    private static double now() {
        return System.nanoTime() / 1e9;
    }
}
