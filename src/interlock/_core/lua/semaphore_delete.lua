-- semaphore_delete: remove a semaphore with all permits; once, however often the call arrives.
--
-- KEYS     semaphore, request, total?
-- ARGV     number, ttl
--
-- Returns  1 when there was one, else 0
-- Source   RSemaphore.delete, Redisson 4.7.0
-- Wire     the number; the total is ours alone

-- include: once

if not tonumber(redis.call('get', semaphore) or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
local there = redis.call('del', semaphore)
if total then
  redis.call('del', total)
end
redis.call('set', request, number .. ' ' .. there, 'px', ttl)
return there
