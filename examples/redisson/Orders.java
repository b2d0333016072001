import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Counts in a file, under the lock that orders.py takes as well. */
public final class Orders {
    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress(System.getenv("REDIS_URL"));
        RedissonClient client = Redisson.create(config);
        RLock lock = client.getLock("orders:counter");
        for (int i = 0; i < 50; i++) {
            if (!lock.tryLock(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("somebody held the lock for half a minute");
            }
            try {
                Path file = Path.of(arguments[0]);
                int count = Integer.parseInt(Files.readString(file).trim());
                Files.writeString(file, String.valueOf(count + 1));
            } finally {
                lock.unlock();
            }
        }
        client.shutdown();
    }
}
