-- leased_change: make, set, add to or delete a number of permits, and tell the waiters; once.
--
-- The server may have evicted the number alone. So permits that are held count in the sum of all.
--
-- KEYS     semaphore, request, permits
-- ARGV     number, ttl, how, all, idle, channel
-- Returns  1 when done, 0 when there was one to make, or none to delete
-- Source   RPermitExpirableSemaphore.trySetPermits, setPermits, addPermits and delete
-- Wire     the number and the zset; on the channel the new sum, or how many were added

-- include: once

local done, tells = 1, false
local free = redis.call('get', semaphore)
-- include: number(free, a number of permits)
if how == 'delete' then
  done = redis.call('del', semaphore, permits) > 0 and 1 or 0
elseif how == 'add' then
  redis.call('incrby', semaphore, all)
  tells = tonumber(all) > 0
elseif how == 'make' and free then
  done = 0
else
  local missing = all - (free or 0) - redis.call('zcard', permits)
  redis.call('incrby', semaphore, missing)
  tells = missing ~= 0 or not free
end
redis.call('set', request, number .. ' ' .. done, 'px', ttl)

-- include: idle(semaphore, permits)

if tells then
  redis.pcall(PUBLISH, channel, all)
end
return done
