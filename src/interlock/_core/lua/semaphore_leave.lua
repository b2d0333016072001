-- semaphore_leave: leave the queue, and tell the others if permits are free.
--
-- The client may have been woken for these permits.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  queue      zset {client: when it came, in ms}; may be left out
-- ARGV[1]  me         string, "<client id>" or "<client id>:<permits>"
-- ARGV[2]  channel    string, where waiters listen
--
-- Returns  1
-- Source   our own
-- Wire     the number on the channel, if permits are free and the client stood in the queue
local semaphore, queue, me, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

local stood = queue and redis.pcall('zrem', queue, me, '+' .. me)
local free = tonumber(redis.call('get', semaphore) or 0)
if stood ~= 0 and free and free > 0 then
  redis.call(PUBLISH, channel, free)
end
return 1
