-- semaphore_set: set the number of all permits, taken and free, and tell the waiters; once.
--
-- KEYS     semaphore, request, total
-- ARGV     number, permits, ttl, idle, channel
--
-- Returns  1 when set, 0 when the semaphore exists and its total is not known
-- Source   our own; RPermitExpirableSemaphore.setPermits, Redisson 4.7.0, does the same for leases
-- Wire     the number, whose TTL stays, and its new value on the channel if there are more; the
--          total is ours alone

-- include: once

local free, known = redis.call('get', semaphore), redis.call('get', total)
if not tonumber(free or 0) or not tonumber(known or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
if free and not known then
  redis.call('set', request, number .. ' 0', 'px', ttl)
  return 0
end
local more = tonumber(permits)
if free then
  -- If more are free than there should be, somebody has released more than was taken.
  more = more - math.max(tonumber(known), tonumber(free))
  redis.call('incrby', total, permits - known)
else
  redis.call('set', total, permits)
end
local now = redis.call('incrby', semaphore, more)
redis.call('set', request, number .. ' 1', 'px', ttl)

-- include: idle(semaphore, total)

if more > 0 and now > 0 then
  redis.call(PUBLISH, channel, now)
end
return 1
