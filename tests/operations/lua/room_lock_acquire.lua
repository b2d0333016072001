-- room_lock_acquire: reach *depth* in a free place or an own one, or learn when a place is free.
--
-- Two holders may have the lock. The places of the dead are freed here.
--
-- A depth above 1 is a re-entry: it does not take a lost place again.
--
-- KEYS[1]  lock    hash {holder: depth}; its TTL is the longest lease
-- KEYS[2]  leases  zset {holder: its end, epoch milliseconds by the server's clock}
-- ARGV[1]  lease   integer > 0, milliseconds
-- ARGV[2]  holder  string, "<client id>:<number>"
-- ARGV[3]  depth   integer > 0, the depth to reach: sending it twice changes nothing
--
-- Returns  nil when held; else the milliseconds until the first of the others' leases ends (-2: a
--          re-entry found no place)
-- Source   none
-- Wire     the hash, the zset and their TTLs
local lock, leases, lease, holder = KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2]
local depth = ARGV[3]
local MOST = 2

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local others, first, mine = 0, math.huge, nil
for _, each in ipairs(redis.call('hkeys', lock)) do
  local ends = tonumber(redis.call('zscore', leases, each) or 0)
  if ends <= now then
    redis.call('hdel', lock, each)
    redis.call('zrem', leases, each)
  elseif each == holder then
    mine = ends
  else
    others, first = others + 1, math.min(first, ends)
  end
end
if not mine and depth ~= '1' then
  return -2
elseif not mine and others >= MOST then
  return first - now
end
redis.call('hset', lock, holder, depth)
redis.call('zadd', leases, string.format('%.0f', math.max(mine or 0, now + lease)), holder)
if redis.call('pttl', lock) < lease then
  redis.call('pexpire', lock, lease)
end
if redis.call('pttl', leases) < lease then
  redis.call('pexpire', leases, lease)
end
return nil
