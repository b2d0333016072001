-- semaphore_change: give permits back, undo an acquire, make a semaphore, change the number of all its
-- permits, or delete it; once for each call.
--
-- KEYS     semaphore, request, total?
-- ARGV     number, ttl, how, permits, idle, channel, named
-- Returns  1 when done; 0 when there was one to make, none to delete or to give back to, or the total
--          to change is not known
-- Source   RSemaphore.release, releaseIfExists, addPermits, trySetPermits and delete;
--          to set is our own, and RPermitExpirableSemaphore.setPermits does the same for leases
-- Wire     the number, whose TTL stays, and its new value on the channel if it changed and is not
--          negative: Java's listener fails on that; the total is ours alone

local last = redis.call('get', request) or ''
if how == 'undo' then
  permits = string.sub(last, 1, 12) == number and string.sub(last, 14) or '0'
elseif string.sub(last, 1, 12) >= number then
  return tonumber(string.sub(last, 14))
end
local free = redis.call('get', semaphore)
local known = total and (how == 'set' or how == 'add') and redis.call('get', total)
-- include: number(free, a number of permits), number(known, a number of permits)
redis.call('del', request) -- a full server refuses most writes, but only as the first one

if how == 'make' or how == 'set' then
  named = permits
elseif how == 'undo' or how == 'delete' then
  named = ''
end

-- include: make

local done, more = 1, '0'
if how == 'make' then
  done = made and 1 or 0
elseif how == 'delete' then
  done = redis.call('del', semaphore)
  if total then
    redis.call('del', total)
  end
elseif how == 'set' then
  if not made and known then
    -- If more are free than there should be, somebody has released more than was taken.
    more = permits - math.max(tonumber(known), tonumber(free))
    redis.call('incrby', total, permits - known)
  elseif not made then
    done = 0
  end
elseif not free and (how == '0' or how == 'undo') then
  done = 0
elseif not made or named == '0' or how == 'add' or how == 'new' then
  -- What was taken of a lost number is among those that it has now.
  if how == 'add' and total and (known or not free or made) then
    redis.call('incrby', total, permits)
  end
  more = permits
end
if tonumber(more) ~= 0 then
  free = redis.call('incrby', semaphore, more)
end
redis.call('set', request, number .. ' ' .. (how == 'undo' and 0 or done), 'px', ttl)

-- include: idle(semaphore, total)

if (made or tonumber(more) ~= 0) and tonumber(free) >= 0 then
  redis.pcall(PUBLISH, channel, free)
end
return done
