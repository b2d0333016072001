-- leased_delete: remove a leased semaphore with all permits; once, however often the call arrives.
--
-- KEYS     semaphore, request, permits
-- ARGV     number, ttl
--
-- Returns  1 when there was one, else 0
-- Source   RPermitExpirableSemaphore.delete, Redisson 4.7.0
-- Wire     the number and the zset

-- include: once

if not tonumber(redis.call('get', semaphore) or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
local there = redis.call('del', semaphore, permits) > 0 and '1' or '0'
redis.call('set', request, number .. ' ' .. there, 'px', ttl)
return tonumber(there)
