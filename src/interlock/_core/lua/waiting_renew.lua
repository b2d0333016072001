-- waiting_renew: renew many leases of parties or waiters, each only if it has not ended.
--
-- A server that is out of memory refuses ZADD, but only as a script's first write. So a ZREM of a
-- member that never exists comes first.
--
-- KEYS[1..n]  leases  zset {id: when its lease ends, epoch milliseconds by the server's clock}
-- ARGV[1]     lease   integer > 0, milliseconds
-- ARGV[2..n]  ids     string, one party or waiter for each zset
--
-- Returns  a list of 1, even for one that waits no longer: it learns that when it looks
-- Source   LockTask of Redisson 4.7.0
-- Wire     ours alone: Redisson has no such object
local leases, zsets, lease, ids = KEYS[1], KEYS, tonumber(ARGV[1]), ARGV

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kept = {}
for i, each in ipairs(zsets) do
  leases = each
  local ends = redis.pcall('zscore', leases, ids[i + 1])
  if type(ends) == 'string' and tonumber(ends) > now then
    redis.call('zrem', leases, '')
    redis.call('zadd', leases, math.max(tonumber(ends), now + lease), ids[i + 1])
  end
  kept[i] = 1
end
return kept
