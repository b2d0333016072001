-- room_lock_renew: keep places in many locks for another lease, each only if it is still held.
--
-- A server that is out of memory refuses ZADD, but only as a script's first write. So a ZREM of a
-- member that never exists comes first.
--
-- A key of another type is a lost lock. The other locks are still renewed: hence pcall.
--
-- KEYS[1]     lock    hash {holder: depth}; its TTL is the longest lease
-- KEYS[2..n]  leases  zset {holder: its end, epoch milliseconds}; then the next lock and so on
-- ARGV[1]     lease   integer > 0, milliseconds
-- ARGV[2..n]  holder  string, "<client id>:<number>", one for each lock
--
-- Returns  a list: 1 for a place that is kept, 0 for one that is lost
-- Source   none; never shortens a lease
-- Wire     the ends of the leases, and the TTLs
local lock, leases, keys, lease, holders = KEYS[1], KEYS[2], KEYS, tonumber(ARGV[1]), ARGV

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local kept = {}
for i = 1, #keys / 2 do
  lock, leases = keys[2 * i - 1], keys[2 * i]
  local holder = holders[i + 1]
  local held = redis.pcall('hexists', lock, holder) == 1
  local score = held and redis.pcall('zscore', leases, holder)
  local ends = type(score) == 'string' and tonumber(score) or 0
  kept[i] = ends > now and 1 or 0
  if kept[i] == 1 then
    redis.call('zrem', leases, '')
    if ends < now + lease then
      redis.call('zadd', leases, string.format('%.0f', now + lease), holder)
    end
    if redis.call('pttl', lock) < lease then
      redis.call('pexpire', lock, lease)
    end
    if redis.call('pttl', leases) < lease then
      redis.call('pexpire', leases, lease)
    end
  end
end
return kept
