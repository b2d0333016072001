-- semaphore_acquire: take permits if so many are free; a call that arrives twice takes them once.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, the latch of this call: the permits it took, "0" once it was undone
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; a key that is never there if there is none
-- ARGV[1]  permits    integer > 0
-- ARGV[2]  ttl        integer > 0, milliseconds that the latch is kept
--
-- Returns  1 when taken; 0 when too few are free, or the call was undone
-- Source   RSemaphore.tryAcquire, Redisson 4.7.0
-- Wire     the number; the latches are private to the caller; this text is our own
local semaphore, request, spent, permits, ttl = KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[1]), ARGV[2]

local taken = redis.call('get', request)
if taken then
  return taken == '0' and 0 or 1
end
local free = tonumber(redis.call('get', semaphore) or 0)
if not free then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
local enough = free >= permits
if enough then
  redis.call('decrby', semaphore, permits)
  redis.call('set', request, permits, 'px', ttl)
end
redis.call('del', spent)
return enough and 1 or 0
