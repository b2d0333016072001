-- semaphore_try_set: make a missing semaphore, and tell the waiters; once, however often it arrives.
--
-- KEYS     semaphore, request, total?
-- ARGV     number, permits, ttl, idle, channel
--
-- Returns  1 when made, 0 when there was one
-- Source   RSemaphore.trySetPermits, Redisson 4.7.0
-- Wire     the number, and the same on the channel; the total is ours alone

-- include: once

local made = redis.call('set', semaphore, permits, 'nx') and '1' or '0'
redis.call('set', request, number .. ' ' .. made, 'px', ttl)
if made == '1' and total then
  redis.call('set', total, permits)
end

-- include: idle(semaphore, total)

if made == '1' then
  redis.call(PUBLISH, channel, permits)
end
return tonumber(made)
