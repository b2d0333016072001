-- room_lock_force_release: free both places, no matter who holds them, and tell the waiters.
--
-- A copy that comes after another one was executed does nothing, so it breaks no later hold.
--
-- KEYS[1]  lock     hash {holder: depth}
-- KEYS[2]  leases   zset {holder: its end, epoch milliseconds}
-- KEYS[3]  request  string, the answer to this call, for copies of it; may be left out, with ttl
-- ARGV[1]  channel  string, where waiters listen
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is remembered; may be left out
--
-- Returns  1 when it was locked, else 0
-- Source   none
-- Wire     the hash, the zset, the request, and "0" on the channel
local lock, leases, request, channel, ttl = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]

local before = request and redis.pcall('get', request)
if type(before) == 'string' then
  return tonumber(before)
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local living = redis.call('zcount', leases, '(' .. string.format('%.0f', now), '+inf')
local locked = living > 0 and 1 or 0
redis.call('del', lock)
redis.call('del', leases)
if request then
  redis.pcall('set', request, locked, 'px', ttl)
end
if locked == 1 then
  redis.call(PUBLISH, channel, '0')
end
return locked
