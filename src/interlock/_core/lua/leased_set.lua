-- leased_set: set the sum of free and held permits, and tell the waiters; once.
--
-- KEYS     semaphore, request, permits
-- ARGV     number, all, ttl, idle, channel
--
-- Returns  1
-- Source   RPermitExpirableSemaphore.setPermits, Redisson 4.7.0
-- Wire     the number, and the new sum on the channel

-- include: once

local free = redis.call('get', semaphore)
if not tonumber(free or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
local missing = all - (free or 0) - redis.call('zcard', permits)
redis.call('incrby', semaphore, missing)
redis.call('set', request, number .. ' 1', 'px', ttl)

-- include: idle(semaphore, permits)

if missing ~= 0 or not free then
  redis.call(PUBLISH, channel, all)
end
return 1
