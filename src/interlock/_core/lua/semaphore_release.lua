-- semaphore_release: give permits back, or add some, and tell the waiters; once for each call.
--
-- KEYS     semaphore, request, total?
-- ARGV     number, permits, ttl, named, idle, channel, how
--
-- Returns  1 when done, 0 when there is no such semaphore
-- Source   RSemaphore.release, releaseIfExists and addPermits, Redisson 4.7.0
-- Wire     the number, and its new value on the channel unless it is negative: Java's listener
--          fails on that

-- include: once

local all = how == 'add' and total and redis.call('get', total)
if all and not tonumber(all) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end

-- include: free_permits

if not free and how == '0' then
  redis.call('set', request, number .. ' 0', 'px', ttl)
  return 0
end
-- What was taken of a lost number is among those that it has now.
if not made or named == '0' or how == 'add' or how == 'new' then
  if how == 'add' and total and (all or not free or made) then
    redis.call('incrby', total, permits)
  end
  free = redis.call('incrby', semaphore, permits)
end
redis.call('set', request, number .. ' 1', 'px', ttl)

-- include: idle(semaphore, total)

if tonumber(free) >= 0 then
  redis.call(PUBLISH, channel, free)
end
return 1
