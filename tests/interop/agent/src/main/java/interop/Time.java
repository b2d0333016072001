package interop;

import com.fasterxml.jackson.databind.JsonNode;

/** Seconds in commands, milliseconds in Java. */
final class Time {
    private Time() {}

    static long millis(JsonNode seconds) {
        return Math.round(seconds.asDouble() * 1000);
    }

    static long millis(JsonNode seconds, long otherwise) {
        return isGiven(seconds) ? millis(seconds) : otherwise;
    }

    static boolean isGiven(JsonNode value) {
        return !value.isMissingNode() && !value.isNull();
    }

    static Double seconds(long millis) {
        return millis / 1000.0;
    }
}
