-- leased_semaphore_update: set the end of a permit's lease, if all its ids are still held.
--
-- The new end is one lease from now, sooner or later than before.
--
-- A server that is out of memory refuses ZADD, but only as a script's first write. So a ZREM of a
-- member that never exists comes first.
--
-- KEYS[1]  leases  zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- ARGV[1]  lease   integer > 0, milliseconds
-- ARGV[2]  ids     string, 32 hex digits each
--
-- Returns  1 when done, 0 when one of them is not held (nothing changed)
-- Source   RPermitExpirableSemaphore.updateLeaseTime, Redisson 4.7.0,
--          with the server's clock in place of the client's
-- Wire     the scores; this code is our own
local leases, lease, ids = KEYS[1], tonumber(ARGV[1]), ARGV[2]

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local members = {}
for id in ids:gmatch(('%x'):rep(32)) do
  local member = id:gsub('%x%x', function(byte) return string.char(tonumber(byte, 16)) end)
  if tonumber(redis.call('zscore', leases, member) or 0) <= now then
    return 0
  end
  members[#members + 1] = member
end
redis.call('zrem', leases, '')
for _, member in ipairs(members) do
  redis.call('zadd', leases, now + lease, member)
end
return 1
