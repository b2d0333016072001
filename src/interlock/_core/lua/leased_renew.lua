-- leased_renew: renew many permits, each only if all its ids are still held.
--
-- A key of another type is a lost permit. The other permits are still renewed: hence pcall.
--
-- A server that is out of memory refuses ZADD, but only as a script's first write. So a ZREM of a
-- member that never exists comes first.
--
-- KEYS[1..n]  leases  zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock};
--                     then, if they end by themselves, the number of free permits of each semaphore
-- ARGV[1]     lease   integer > 0, milliseconds
-- ARGV[2]     idle    integer >= 0, milliseconds after which they end by themselves; 0: they do not
-- ARGV[3..n]  ids     string, the ids of one permit for each zset, 32 hex digits each
--
-- Returns  a list: 1 for a permit that is kept, 0 for one that is lost
-- Source   RPermitExpirableSemaphore.updateLeaseTime, Redisson 4.7.0; never shortens a lease
-- Wire     the scores, and the TTL of the keys; this code is our own
local leases, all, lease, idle, ids = KEYS[1], KEYS, tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV

local function raw(digits)
  return (string.gsub(digits, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end))
end

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kept = {}
local permits = #ids - 2
for i = 1, permits do
  leases = all[i]
  local members, held = {}, 1
  for id in ids[i + 2]:gmatch(('%x'):rep(32)) do
    local member = raw(id)
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
    if idle > 0 and all[permits + i] then
      redis.call('pexpire', leases, idle)
      leases = all[permits + i]
      redis.call('pexpire', leases, idle)
    end
  end
  kept[i] = held
end
return kept
