-- semaphore_undo: give back what an interrupted call took, and let a copy of it do nothing.
--
-- KEYS     semaphore, request
-- ARGV     number, ttl, channel
--
-- Returns  1
-- Wire     the number, and its new value on the channel if it changed and is not negative

local last = redis.call('get', request) or ''
local taken = string.sub(last, 1, 12) == number and string.sub(last, 14) or '0'
redis.call('del', request) -- a full server refuses most writes, but only as the first one
if taken ~= '0' and redis.call('exists', semaphore) == 1 then
  local free = redis.call('incrby', semaphore, taken)
  if free >= 0 then
    redis.call(PUBLISH, channel, free)
  end
end
redis.call('set', request, number .. ' 0', 'px', ttl)
return 1
