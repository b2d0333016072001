-- leased_release: give back permits and a place, and let in the first of the queue if they fit.
--
-- It is also how a waiter gives up, and how a permit of anybody is given back by its id. Repeated, it
-- changes nothing.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  permits    zset {id, 16 bytes: its end, epoch milliseconds by the server's clock}
-- KEYS[3]  queue      zset, as for leased_ask; may be left out
-- ARGV[1]  holder     string, as for leased_ask, or the id of a permit in hex
-- ARGV[2]  channel    string, where Java listens
-- ARGV[3]  how        as for lock_release; may be left out
--
-- Returns  as read_release
-- Source   RPermitExpirableSemaphore.tryRelease, Redisson 4.7.0, with the server's clock
--          in place of the client's
-- Wire     the number and the zset; if nobody of ours waits, on the channel the new number, or with
--          several permits how many came back
local semaphore, permits, queue = KEYS[1], KEYS[2], KEYS[3]
local holder, channel, how = ARGV[1], ARGV[2], ARGV[3]
local named, idle

-- include: front

-- include: leased

-- include: permits

-- include: permits_release
