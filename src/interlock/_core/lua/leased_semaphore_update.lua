-- leased_semaphore_update: set the end of a permit's lease, if all its ids are still held.
--
-- The new end is one lease from now, sooner or later than before.
--
-- A server that is out of memory refuses ZADD, but only as a script's first write. So a ZREM of a
-- member that never exists comes first.
--
-- A copy that comes after another one was executed does nothing, so it cannot undo a later call.
--
-- A semaphore that ends by itself does not end before the lease.
--
-- KEYS[1]  leases     zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- KEYS[2]  semaphore  string, the number of free permits
-- KEYS[3]  request    string, the answer to this call, for copies of it; may be left out, with ttl
-- ARGV[1]  lease      integer >= 0, milliseconds; 0 changes no lease, and makes all copies do
--                     nothing
-- ARGV[2]  ids        string, 32 hex digits each
-- ARGV[3]  ttl        integer > 0, milliseconds that the request is remembered; may be left out
--
-- Returns  1 when done, 0 when one of them is not held (nothing changed)
-- Source   RPermitExpirableSemaphore.updateLeaseTime, Redisson 4.7.0,
--          with the server's clock in place of the client's
-- Wire     the scores, the request, and a TTL of the keys that is shorter than the lease; this code
--          is our own
local leases, semaphore, request = KEYS[1], KEYS[2], KEYS[3]
local lease, ids, ttl = tonumber(ARGV[1]), ARGV[2], ARGV[3]

local before = request and redis.pcall('get', request)
if type(before) == 'string' then
  return tonumber(before)
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- include: raw

local members, held = {}, lease > 0
for id in ids:gmatch(('%x'):rep(32)) do
  local member = raw(id)
  if tonumber(redis.call('zscore', leases, member) or 0) <= now then
    held = false
  end
  members[#members + 1] = member
end
redis.call('zrem', leases, '')
for _, member in ipairs(held and members or {}) do
  redis.call('zadd', leases, now + lease, member)
end
local left = held and redis.call('pttl', leases) or -1
if left > 0 and left < lease then
  redis.call('pexpire', leases, lease)
  redis.call('pexpire', semaphore, lease)
end
if request then
  redis.pcall('set', request, held and 1 or 0, 'px', ttl)
end
return held and 1 or 0
