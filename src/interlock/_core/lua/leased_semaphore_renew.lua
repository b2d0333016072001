-- leased_semaphore_renew: renew many permits, each only if all its ids are still held.
--
-- A key of another type is a lost permit. The other permits are still renewed: hence pcall.
--
-- A server that is out of memory refuses ZADD, but only as a script's first write. So a ZREM of a
-- member that never exists comes first.
--
-- KEYS[1..n]  leases  zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- ARGV[1]     lease   integer > 0, milliseconds
-- ARGV[2..n]  ids     string, the ids of one permit for each zset, 32 hex digits each
--
-- Returns  a list: 1 for a permit that is kept, 0 for one that is lost
-- Source   RPermitExpirableSemaphore.updateLeaseTime, Redisson 4.7.0; never shortens a lease
-- Wire     the scores; this code is our own
local leases, zsets, lease, ids = KEYS[1], KEYS, tonumber(ARGV[1]), ARGV

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kept = {}
for i, each in ipairs(zsets) do
  leases = each
  local members, held = {}, 1
  for id in ids[i + 1]:gmatch(('%x'):rep(32)) do
    local member = id:gsub('%x%x', function(byte) return string.char(tonumber(byte, 16)) end)
    local score = redis.pcall('zscore', leases, member)
    local ends = type(score) == 'string' and tonumber(score) or 0
    if ends <= now then
      held = 0
    elseif ends < now + lease then
      members[#members + 1] = member
    end
  end
  if held == 1 then
    redis.call('zrem', leases, '')
    for _, member in ipairs(members) do
      redis.call('zadd', leases, now + lease, member)
    end
  end
  kept[i] = held
end
return kept
