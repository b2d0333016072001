-- semaphore_acquire: take permits if enough are free, or all that are; once for each call.
--
-- To take none is to ask how many are free, and leaves nothing.
--
-- KEYS     semaphore, request, total?
-- ARGV     number, ttl, how, permits, idle, channel, named
-- Returns  how many are free now, when taken; else {-1, the free ones (nil: no semaphore), all (nil:
--          not known)}, and the same with the number of free ones in front when taken, if *how* is
--          "tell"
-- Source   RSemaphore.tryAcquire, drainPermits and availablePermits
-- Wire     the number, and the same on the channel when it is made; all else is ours alone

local last = redis.call('get', request)
if last and string.sub(last, 1, 12) >= number then
  local taken = string.sub(last, 14)
  if permits == 'all' then
    return {0, tonumber(taken), false}
  end
  local now_free = tonumber(redis.call('get', semaphore) or '') or 0
  return taken == permits and now_free or {-1, false, false}
end
local free = redis.call('get', semaphore)

-- include: number(free, a number of permits), make

local wanted = permits == 'all' and (free or '0') or permits
local left = (free or 0) - wanted
if left >= 0 and permits ~= '0' then
  if wanted ~= '0' then -- there may be no semaphore
    redis.call('decrby', semaphore, wanted)
  end
  redis.call('set', request, number .. ' ' .. wanted, 'px', ttl)
end

-- include: idle(semaphore, total)

if made then
  redis.pcall(PUBLISH, channel, left >= 0 and left or free)
end
if left >= 0 and how ~= 'tell' then
  return left
end
local all = total and tonumber(redis.call('get', total) or '')
return {left >= 0 and left or -1, tonumber(free or '') or false, all or false}
