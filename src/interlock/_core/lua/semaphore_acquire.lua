-- semaphore_acquire: take permits if enough are free; a call that arrives twice takes them once.
--
-- KEYS     semaphore, request, total?
-- ARGV     number, permits, ttl, named, idle, channel, told
--
-- Returns  how many are free now, when taken; else {-1, the free ones (nil: no semaphore), all (nil:
--          not known)}, and the same with the number of free ones in front when taken, if they are to be *told*
-- Source   RSemaphore.tryAcquire, Redisson 4.7.0
-- Wire     the number, and the same on the channel when it is made; all else is ours alone

local last = redis.call('get', request)
if last and string.sub(last, 1, 12) >= number then
  local now_free = tonumber(redis.call('get', semaphore) or '') or 0
  return string.sub(last, 14) == permits and now_free or {-1, false, false}
end
local free, made = redis.call('get', semaphore), false
if not free and named ~= '' then
  redis.call('set', semaphore, named)
  if total then
    redis.call('set', total, named)
  end
  free, made = named, true
end
local left = tonumber(free or 0)
if not left then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
left = left - permits
if left >= 0 then
  redis.call('decrby', semaphore, permits)
  redis.call('set', request, number .. ' ' .. permits, 'px', ttl)
end

-- include: idle(semaphore, total)

if made then
  redis.call(PUBLISH, channel, left >= 0 and left or free)
end
if left >= 0 and told ~= '1' then
  return left
end
local all = total and tonumber(redis.call('get', total) or '')
return {left >= 0 and left or -1, tonumber(free or '') or false, all or false}
