-- semaphore_undo: give back what an interrupted call took, and let a copy of it do nothing.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, "<number> <permits that it took>"; 0 permits once it was undone
-- ARGV[1]  number     integer of 12 digits, that of the call
-- ARGV[2]  ttl        integer > 0, milliseconds that the request is kept
-- ARGV[3]  channel    string, where waiters listen
--
-- Returns  1
-- Source   our own
-- Wire     the number, and its new value on the channel if it changed and is not negative
local semaphore, request, number, ttl, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

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
