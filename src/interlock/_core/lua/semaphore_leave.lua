-- semaphore_leave: leave the queue, and tell the others if permits are free.
--
-- The client may have been woken for these permits.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- ARGV[1]  me         string, "<client id>" or "<client id>:<permits>"
-- ARGV[2]  publish    string, PUBLISH or SPUBLISH
-- ARGV[3]  channel    string, where waiters listen
--
-- Returns  1
-- Source   our own
-- Wire     the number on the channel, if permits are free and the client stood in the queue
local semaphore, me, publish, channel = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local queue = 'interlock_semaphore_queue' .. string.match(channel, ':.*')
local stood = redis.pcall('zrem', queue, me, '+' .. me)
local free = tonumber(redis.call('get', semaphore) or 0)
if stood ~= 0 and free and free > 0 then
  redis.call(publish, channel, free)
end
return 1
