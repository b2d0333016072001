package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashMap;
import java.util.Map;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;

/** What can be done with everything lock-like. */
final class Locks {
    private Locks() {}

    static Object perform(RLock lock, JsonNode command) throws InterruptedException {
        switch (command.get("do").asText()) {
            case "acquire":
                return acquire(lock, command.path("timeout"), Time.millis(command.path("lease"), -1));
            case "acquire_token":
                return acquireToken((RFencedLock) lock, command.path("timeout"), Time.millis(command.path("lease"), -1));
            case "token":
                return ((RFencedLock) lock).getToken();
            case "release":
                lock.unlock();
                return null;
            case "force_release":
                return lock.forceUnlock();
            case "locked":
                return lock.isLocked();
            case "query":
                return query(lock);
            default:
                throw new IllegalArgumentException("a lock cannot " + command);
        }
    }

    /** Waits for ever without a timeout, not at all with 0. */
    private static boolean acquire(RLock lock, JsonNode timeout, long lease) throws InterruptedException {
        if (!Time.isGiven(timeout)) {
            lock.lockInterruptibly(lease, MILLISECONDS);
            return true;
        }
        long wait = Time.millis(timeout);
        if (wait == 0 && lease < 0) {
            return lock.tryLock();
        }
        return lock.tryLock(wait, lease, MILLISECONDS);
    }

    private static Long acquireToken(RFencedLock lock, JsonNode timeout, long lease) {
        if (!Time.isGiven(timeout)) {
            return lock.lockAndGetToken();
        }
        return lock.tryLockAndGetToken(Time.millis(timeout), lease, MILLISECONDS);
    }

    private static Map<String, Object> query(RLock lock) {
        Map<String, Object> state = new LinkedHashMap<>();
        long left = lock.remainTimeToLive();
        state.put("locked", lock.isLocked());
        state.put("owned", lock.isHeldByCurrentThread());
        state.put("depth", lock.getHoldCount());
        state.put("remaining", left == -2 ? null : Time.seconds(left));
        return state;
    }
}
