-- semaphore_release: add or remove permits, and tell the waiters.
--
-- A call counts once, however often it arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, the latch of this call: the permits it took, negative if it gave
--                     some, "0" if it did nothing
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; if there is none, a
--                     key that never exists
-- KEYS[4]  total      string, "<all permits> <epoch>", as far as our clients have set it;
--                     may be left out, with the queue
-- KEYS[5]  queue      zset {client: when it came, in ms}; may be left out
-- ARGV[1]  permits    integer, not 0
-- ARGV[2]  create     1: create a missing semaphore; 0: do nothing if it is missing
-- ARGV[3]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[4]  channel    string, where waiters listen
-- ARGV[5]  epoch      integer, in which all these permits were taken; 0: not known
--
-- Returns  1 when done, 3 when clients in the queue were told that they are next, or when to look,
--          too; 0 when it is missing and not created, or was made anew since the permits were taken
-- Source   RSemaphore.release and releaseIfExists, Redisson 4.7.0
-- Wire     the number, and its new value on the channel unless it is negative: Java's listener
--          fails on that. With clients in the queue, the first ones get claims for 250 ms and
--          messages on their wake channels instead, unless others listen; this code is our own
local semaphore, request, spent, total, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local permits, create, ttl, channel, epoch = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- include: epoch_of

local old = total and epoch ~= '0' and epoch_of() ~= epoch

-- include: give_permits

if free < 0 then
  return 1
end
if free == 0 or not queue or redis.pcall('exists', queue) ~= 1 then
  redis.call(PUBLISH, channel, free)
  return 1
end

-- include: members

-- include: microseconds

-- include: grant

-- include: share

return share(free) and 3 or 1
