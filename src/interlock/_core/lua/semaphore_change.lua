-- semaphore_change: make a missing semaphore, set the number of all its permits, or delete it; once.
--
-- KEYS     semaphore, request, total?
-- ARGV     number, ttl, how, all, idle, channel
--
-- Returns  1 when done; 0 when there was one to make, none to delete, or the total to change is unknown
-- Source   RSemaphore.trySetPermits and delete, Redisson 4.7.0; to set is our own, and
--          RPermitExpirableSemaphore.setPermits does the same for leases
-- Wire     the number, whose TTL stays, and its new value on the channel if there are more; the
--          total is ours alone

-- include: once

local free, known = how ~= 'make' and redis.call('get', semaphore), how == 'set' and redis.call('get', total)
local done, told = 1, nil
if not tonumber(free or 0) or not tonumber(known or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
elseif how == 'delete' then
  done = redis.call('del', semaphore)
  if total then
    redis.call('del', total)
  end
elseif how == 'make' then
  told = redis.call('set', semaphore, all, 'nx') and all
  done = told and 1 or 0
  if told and total then
    redis.call('set', total, all)
  end
elseif free and not known then
  done = 0
else
  local more = tonumber(all)
  if free then
    -- If more are free than there should be, somebody has released more than was taken.
    more = more - math.max(tonumber(known), tonumber(free))
    redis.call('incrby', total, all - known)
  else
    redis.call('set', total, all)
  end
  local now = redis.call('incrby', semaphore, more)
  told = more > 0 and now > 0 and now
end
redis.call('set', request, number .. ' ' .. done, 'px', ttl)

-- include: idle(semaphore, total)

if told then
  redis.call(PUBLISH, channel, told)
end
return done
