-- leased_try_set: make a missing leased semaphore, and tell the waiters; once, however often the
-- call arrives.
--
-- The server may have evicted the number alone. Then permits that are held count.
--
-- KEYS     semaphore, request, permits
-- ARGV     number, all, ttl, idle, channel
--
-- Returns  1 when made, 0 when there was one
-- Source   RPermitExpirableSemaphore.trySetPermits, Redisson 4.7.0
-- Wire     the number, and the sum of free and held ones on the channel

-- include: once

local made = redis.call('set', semaphore, all, 'nx') and '1' or '0'
redis.call('set', request, number .. ' ' .. made, 'px', ttl)
local held = made == '1' and redis.call('zcard', permits) or 0
if held > 0 then
  redis.call('decrby', semaphore, held)
end

-- include: idle(semaphore, permits)

if made == '1' then
  redis.call(PUBLISH, channel, all)
end
return tonumber(made)
