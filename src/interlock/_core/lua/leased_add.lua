-- leased_add: add or remove permits; once, however often the call arrives.
--
-- KEYS     semaphore, request, permits
-- ARGV     number, more, ttl, idle, channel
--
-- Returns  1
-- Source   RPermitExpirableSemaphore.addPermits, Redisson 4.7.0
-- Wire     the number; on the channel how many were added

-- include: once

if not tonumber(redis.call('get', semaphore) or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
redis.call('incrby', semaphore, more)
redis.call('set', request, number .. ' 1', 'px', ttl)

-- include: idle(semaphore, permits)

if tonumber(more) > 0 then
  redis.call(PUBLISH, channel, more)
end
return 1
