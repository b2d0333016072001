-- semaphore_drain: take all permits that are free; once, however often the call arrives.
--
-- KEYS     semaphore, request, total?
-- ARGV     number, ttl, named, idle
--
-- Returns  how many were taken; a negative number is set to 0 and returned
-- Source   RSemaphore.drainPermits, Redisson 4.7.0
-- Wire     the number

-- include: once, free_permits

if free and free ~= '0' then
  redis.call('decrby', semaphore, free)
end
-- Also if none were free: a copy that arrives later must not take any.
redis.call('set', request, number .. ' ' .. (free or '0'), 'px', ttl)

-- include: idle(semaphore, total)

return tonumber(free or 0)
