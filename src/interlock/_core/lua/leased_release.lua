-- leased_release: give back permits and a place, and let in the first of the queue if they fit.
--
-- It is also how a waiter gives up, and how a permit of anybody is given back by its id. Repeated, it
-- changes nothing.
--
-- KEYS     semaphore, permits, queue?
-- ARGV     holder, channel, how?
-- Returns  as read_release
-- Source   RPermitExpirableSemaphore.tryRelease, Redisson 4.7.0, with the server's clock
--          in place of the client's
-- Wire     the number and the zset; if nobody of ours waits, on the channel the new number, or with
--          several permits how many came back
local named, idle

-- include: front, leased, permits, permits_release
