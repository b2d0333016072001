package interop;

import com.fasterxml.jackson.databind.JsonNode;
import io.netty.buffer.Unpooled;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.Config;
import org.redisson.misc.Hash;

/** The Redisson clients by name, and the objects that commands speak of. */
final class Clients {
    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();
    private final Map<String, RLock> locks = new ConcurrentHashMap<>();

    Object perform(JsonNode command) throws Exception {
        switch (command.get("do").asText()) {
            case "connect":
                return connect(command);
            case "close":
                clients.remove(command.get("client").asText()).shutdown();
                return null;
            case "sleep":
                // A job takes real time.
                Thread.sleep(Time.millis(command.get("seconds")));
                return null;
            case "hash":
                return hash(command.get("values"));
            default:
                break;
        }
        RedissonClient client = client(command);
        String name = command.path("name").asText();
        switch (command.get("kind").asText()) {
            case "semaphore":
                return Synchronizers.semaphore(client.getSemaphore(name), command);
            case "leased_semaphore":
                return Synchronizers.leased(client.getPermitExpirableSemaphore(name), command);
            case "latch":
                return Synchronizers.latch(client.getCountDownLatch(name), command);
            default:
                return Locks.perform(lock(command), command);
        }
    }

    private RedissonClient client(JsonNode command) {
        return clients.get(command.path("client").asText("main"));
    }

    /**
     * Returns the same object for the same words in the same thread, unless a fresh one is asked for: Redisson's objects
     * remember leases that they were used with before, and mix up those of several threads.
     */
    private RLock lock(JsonNode of) {
        if (of.path("fresh").asBoolean()) {
            return make(of);
        }
        String words = Thread.currentThread().getName() + of.path("client").asText("main")
                + of.get("kind") + of.get("name") + of.get("members") + of.get("values");
        RLock known = locks.get(words);
        if (known != null) {
            return known;
        }
        RLock made = make(of); // This may make others, so not within computeIfAbsent.
        RLock other = locks.putIfAbsent(words, made);
        return other == null ? made : other;
    }

    private RLock make(JsonNode of) {
        RedissonClient client = client(of);
        String name = of.path("name").asText();
        switch (of.get("kind").asText()) {
            case "lock":
                return client.getLock(name);
            case "non_reentrant":
                return (RLock) Newer.call(client, "getNonReentrantLock", name);
            case "fair":
                return client.getFairLock(name);
            case "read":
                return client.getReadWriteLock(name).readLock();
            case "write":
                return client.getReadWriteLock(name).writeLock();
            case "fenced":
                return client.getFencedLock(name);
            case "spin":
                return client.getSpinLock(name);
            case "multi":
                return client.getMultiLock(members(of));
            case "red":
                return client.getRedLock(members(of));
            case "group":
                return (RLock) Newer.call(client, "getMultiLock", name, strings(of.get("values")));
            default:
                throw new IllegalArgumentException("no such kind: " + of);
        }
    }

    private RLock[] members(JsonNode of) {
        List<RLock> members = new ArrayList<>();
        boolean fresh = of.path("fresh").asBoolean();
        of.get("members").forEach(member -> members.add(fresh ? make(member) : lock(member)));
        return members.toArray(new RLock[0]);
    }

    private String connect(JsonNode command) {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE).setThreads(16).setNettyThreads(4);
        config.setLockWatchdogTimeout(Time.millis(command.path("lease"), 30_000));
        if (command.hasNonNull("fair_wait")) {
            Newer.call(config, "setFairLockWaitTimeout", Time.millis(command.get("fair_wait")));
        }
        String[] addresses = strings(command.get("addresses")).toArray(new String[0]);
        switch (command.path("mode").asText("single")) {
            case "single":
                config.useSingleServer().setAddress(addresses[0])
                        .setConnectionMinimumIdleSize(2).setSubscriptionConnectionMinimumIdleSize(1);
                break;
            case "sentinel":
                small(config.useSentinelServers()
                        .setMasterName(command.get("service").asText()).addSentinelAddress(addresses));
                break;
            case "cluster":
                small(config.useClusterServers().setScanInterval(1000).addNodeAddress(addresses));
                break;
            default:
                throw new IllegalArgumentException("no such mode: " + command);
        }
        if (command.hasNonNull("prefix")) {
            Newer.putBeforeNames(config, command.get("prefix").asText());
        }
        RedissonClient client = Redisson.create(config);
        clients.put(command.path("client").asText("main"), client);
        return client.getId();
    }

    private static void small(BaseMasterSlaveServersConfig<?> servers) {
        servers.setMasterConnectionMinimumIdleSize(2).setSlaveConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionMinimumIdleSize(1);
    }

    private static List<Object> hash(JsonNode values) {
        List<Object> names = new ArrayList<>();
        for (String value : strings(values)) {
            names.add(Hash.hash128toBase64(Unpooled.copiedBuffer(value, StandardCharsets.UTF_8)));
        }
        return names;
    }

    static List<String> strings(JsonNode values) {
        List<String> all = new ArrayList<>();
        values.forEach(value -> all.add(value.asText()));
        return all;
    }
}
