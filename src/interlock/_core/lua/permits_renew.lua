-- permits_renew: renew the permits of many holders, of each only if all its permits are still held.
--
-- KEYS     leases...
-- ARGV     #lease, #idle, ids...
-- Returns  a list: 1 for a holder that keeps its permits, 0 for one that has lost them
-- Source   RPermitExpirableSemaphore.updateLeaseTime
-- Wire     the scores, and the TTL of the keys

local function raw(digits)
  return (string.gsub(digits, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end))
end

-- include: now
local KEEP = 10000 -- milliseconds that a limit outlasts its permits, as in limited
local kept = {}
local holders = #ARGV - 2
for i = 1, holders do
  leases = KEYS[i]
  local members, held = {}, 1
  for id in ARGV[i + 2]:gmatch('%S+') do
    local member = id:find(':') and id or raw(id)
    local score = redis.pcall('zscore', leases, member)
    local ends = type(score) == 'string' and tonumber(score) or 0
    members[#members + 1] = member
    if ends <= now then
      held = 0
    end
  end
  if held == 1 then
    redis.call('zrem', leases, '') -- a full server refuses ZADD, but only as the first write
    for _, member in ipairs(members) do
      redis.call('zadd', leases, 'gt', now + lease, member)
    end
    if idle > 0 and KEYS[holders + i] then
      redis.call('pexpire', leases, idle)
      leases = KEYS[holders + i]
      redis.call('pexpire', leases, idle)
    elseif ARGV[i + 2]:find(':') and redis.call('pttl', leases) < lease + KEEP then
      redis.call('pexpire', leases, lease + KEEP) -- those of a semaphore end with its number
    end
  end
  kept[i] = held
end
return kept
