-- semaphore_try_set: create a missing semaphore, and tell the waiters.
--
-- A call counts once, however often it arrives.
--
-- KEYS[1]  number     string, the number of free permits
-- KEYS[2]  request    string, the latch of this call: the answer to it
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; if there is none, a
--                     key that never exists
-- KEYS[4]  total      string, "<all permits> <epoch>", for later calls; may be left out
-- ARGV[1]  count      integer >= 0
-- ARGV[2]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[3]  channel    string, where waiters listen
--
-- Returns  1 when created, 0 when there was one
-- Source   RSemaphore.trySetPermits, Redisson 4.7.0
-- Wire     the number, and the same on the channel; the total is ours alone, and so is this code
local number, request, spent, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local count, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

-- include: make_number

-- include: begin_epoch

if total then
  begin_epoch(count)
end
redis.call(PUBLISH, channel, count)
return 1
