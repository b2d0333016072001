package interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;

/** What can be done with semaphores and latches. */
final class Synchronizers {
    private Synchronizers() {}

    static Object semaphore(RSemaphore semaphore, JsonNode command) throws InterruptedException {
        int n = command.path("n").asInt(1);
        switch (command.get("do").asText()) {
            case "acquire":
                if (!Time.isGiven(command.path("timeout"))) {
                    semaphore.acquire(n);
                    return true;
                }
                return semaphore.tryAcquire(n, Time.millis(command.get("timeout")), MILLISECONDS);
            case "release":
                semaphore.release(n);
                return null;
            case "release_if_exists":
                return Newer.call(semaphore, "releaseIfExists", n);
            case "try_set_permits":
                return semaphore.trySetPermits(n);
            case "add_permits":
                semaphore.addPermits(n);
                return null;
            case "drain_permits":
                return semaphore.drainPermits();
            case "available_permits":
                return semaphore.availablePermits();
            default:
                throw new IllegalArgumentException("a semaphore cannot " + command);
        }
    }

    static Object leased(RPermitExpirableSemaphore semaphore, JsonNode command) throws InterruptedException {
        int n = command.path("n").asInt(1);
        switch (command.get("do").asText()) {
            case "acquire":
                return acquire(semaphore, command, n);
            case "release":
                List<String> ids = Clients.strings(command.get("ids"));
                if (ids.size() == 1) {
                    semaphore.release(ids.get(0));
                } else {
                    semaphore.release(ids);
                }
                return null;
            case "update_lease":
                return semaphore.updateLeaseTime(
                        command.get("ids").get(0).asText(), Time.millis(command.get("lease")), MILLISECONDS);
            case "try_set_permits":
                return semaphore.trySetPermits(n);
            case "set_permits":
                Newer.call(semaphore, "setPermits", n);
                return null;
            case "add_permits":
                semaphore.addPermits(n);
                return null;
            case "available_permits":
                return semaphore.availablePermits();
            case "permits":
                return Newer.call(semaphore, "getPermits");
            case "acquired_permits":
                return Newer.call(semaphore, "acquiredPermits");
            default:
                throw new IllegalArgumentException("a leased semaphore cannot " + command);
        }
    }

    private static List<String> acquire(RPermitExpirableSemaphore semaphore, JsonNode command, int n)
            throws InterruptedException {
        long lease = Time.millis(command.path("lease"), -1);
        if (!Time.isGiven(command.path("timeout"))) {
            return semaphore.acquire(n, lease, MILLISECONDS);
        }
        List<String> ids = semaphore.tryAcquire(n, Time.millis(command.get("timeout")), lease, MILLISECONDS);
        return ids == null || ids.isEmpty() ? null : ids;
    }

    static Object latch(RCountDownLatch latch, JsonNode command) throws InterruptedException {
        switch (command.get("do").asText()) {
            case "try_set_count":
                return latch.trySetCount(command.get("n").asLong());
            case "count_down":
                latch.countDown();
                return null;
            case "count":
                return latch.getCount();
            case "wait":
                if (!Time.isGiven(command.path("timeout"))) {
                    latch.await();
                    return true;
                }
                return latch.await(Time.millis(command.get("timeout")), MILLISECONDS);
            case "delete":
                return latch.delete();
            default:
                throw new IllegalArgumentException("a latch cannot " + command);
        }
    }
}
