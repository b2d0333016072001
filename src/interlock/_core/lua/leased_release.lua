-- leased_release: give back permits and a place, and let in the first of the queue if they fit.
--
-- It is also how a permit of anybody is given back by its id.
--
-- KEYS     semaphore, permits, queue?
-- ARGV     holder, channel, how?
-- Returns  as read_release
-- Source   RPermitExpirableSemaphore.tryRelease
-- Wire     the number and the zset; if nobody of ours waits, on the channel the new number, or with
--          several permits how many came back
local named, idle = nil, '0' -- it knows of none

-- include: front, leased, permits, permits_release
