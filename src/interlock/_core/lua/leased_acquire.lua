-- leased_acquire: take permits of Redisson's leased semaphore, unless somebody waits.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  permits    zset {id, 16 bytes: its end, epoch milliseconds by the server's clock}
-- KEYS[3]  queue      zset, as for leased_ask; may be left out
-- ARGV[1]  lease      integer > 0, milliseconds
-- ARGV[2]  holder     string, as for leased_ask
-- ARGV[3]  channel    string, where Java listens
-- ARGV[4]  named      integer > 0, how many permits there are if nobody has set them up; or empty
-- ARGV[5]  idle       integer >= 0, milliseconds after which that number ends; 0: it stays
--
-- Returns  as limited_acquire
-- Source   RPermitExpirableSemaphore.tryAcquire, Redisson 4.7.0, with the server's clock
--          in place of the client's
-- Wire     the number and the zset
local semaphore, permits, queue = KEYS[1], KEYS[2], KEYS[3]
local lease, holder, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local named, idle = tonumber(ARGV[4]), tonumber(ARGV[5])

-- include: front

-- include: leased

-- include: permits

-- include: permits_acquire
