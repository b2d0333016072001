-- semaphore_drain: take all permits that are free; once, however often the call arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, the latch of this call: "<permits it took> <epoch>", "0" once it was
--                     undone
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; if there is none, a
--                     key that never exists
-- KEYS[4]  total      string, "<all permits> <epoch>", as far as our clients have
--                     set it; may be left out
-- ARGV[1]  ttl        integer > 0, milliseconds that the latch is kept
--
-- Returns  how many were taken; a negative number is set to 0 and returned
-- Source   RSemaphore.drainPermits, Redisson 4.7.0
-- Wire     the number, whose TTL stays; this code is our own
local semaphore, request, spent, total, ttl = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]

-- include: epoch_of

local taken = redis.call('get', request)
if taken then
  return tonumber(string.match(taken, '^%-?%d+'))
end
local free = tonumber(redis.call('get', semaphore) or 0)
if not free then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
if free ~= 0 then
  redis.call('decrby', semaphore, free)
end
-- Also if none were free: a copy that arrives later must not take any.
redis.call('set', request, free .. ' ' .. epoch_of(), 'px', ttl)
redis.call('del', spent)
return free
