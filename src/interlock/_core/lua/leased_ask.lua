-- leased_ask: take permits of Redisson's leased semaphore, or stand in the queue: in order.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  permits    zset {id, 16 bytes: its end, epoch milliseconds by the server's clock}
-- KEYS[3]  queue      zset {holder, and "?" if its client cannot listen: when it came, microseconds};
--                     may be left out
-- ARGV[1]  lease      integer > 0, milliseconds
-- ARGV[2]  holder     string, "<client>:<number>", with what leased tells
-- ARGV[3]  channel    string, where Java listens
-- ARGV[4]  named      as for leased_acquire
-- ARGV[5]  idle       as for leased_acquire
-- ARGV[6]  deaf       as for lock_ask
-- ARGV[7]  former     as for lock_ask
--
-- Returns  as lock_ask
-- Source   our own
-- Wire     the number and the zset
local semaphore, permits, queue = KEYS[1], KEYS[2], KEYS[3]
local lease, holder, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local named, idle = tonumber(ARGV[4]), tonumber(ARGV[5])
local deaf, former = ARGV[6] or '', ARGV[7]

-- include: front

-- include: leased

-- include: permits

-- include: permits_ask
