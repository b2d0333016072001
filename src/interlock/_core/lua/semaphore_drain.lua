-- semaphore_drain: take all permits that are free; once, however often the call arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, "<number> <permits that it took>": the last call with this key
-- KEYS[3]  total      string, as for semaphore_acquire; may be left out
-- ARGV[1]  number     integer of 12 digits, tells this call from those before it
-- ARGV[2]  ttl        integer > 0, milliseconds that the request is kept
-- ARGV[3]  named      as for semaphore_acquire
-- ARGV[4]  idle       as for semaphore_acquire
--
-- Returns  how many were taken; a negative number is set to 0 and returned
-- Source   RSemaphore.drainPermits, Redisson 4.7.0
-- Wire     the number; this code is our own
local semaphore, request, total = KEYS[1], KEYS[2], KEYS[3]
local number, ttl, named, idle = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- include: once

-- include: free_permits

if free and free ~= '0' then
  redis.call('decrby', semaphore, free)
end
-- Also if none were free: a copy that arrives later must not take any.
redis.call('set', request, number .. ' ' .. (free or '0'), 'px', ttl)

-- include: idle

return tonumber(free or 0)
