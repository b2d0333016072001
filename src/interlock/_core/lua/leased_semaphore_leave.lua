-- leased_semaphore_leave: leave the queue, and give the permits that are free to the next clients.
--
-- The client may have been given permits that it has not confirmed.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  leases     zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- KEYS[3]  queue      zset {client: when it came, in ms}; may be left out
-- ARGV[1]  me         string, "<client id>:leased:<permits>"
-- ARGV[2]  channel    string, where waiters listen
--
-- Returns  1
-- Source   our own
-- Wire     the number and the zset, if the client had permits that it has not confirmed. Messages
--          as those of a release
local semaphore, leases, queue = KEYS[1], KEYS[2], KEYS[3]
local me, channel = ARGV[1], ARGV[2]
local name = string.match(channel, ':.*')
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- include: serve

-- include: claim_permits

local stood = queue and redis.pcall('zrem', queue, me, '+' .. me)
local claimed = end_claim(me, tonumber(string.match(me, '%d+$')))
local free = claimed > 0 and redis.call('incrby', semaphore, claimed)
  or tonumber(redis.call('get', semaphore) or 0)
if not free or free <= 0 or (claimed == 0 and stood == 0) then
  return 1
end
if queue and redis.pcall('exists', queue) == 1 then
  share(free)
else
  redis.call(PUBLISH, channel, free)
end
return 1
