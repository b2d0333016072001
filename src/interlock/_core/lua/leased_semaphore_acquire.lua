-- leased_semaphore_acquire: take a leased permit for each id, or learn when the next lease ends.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  leases     zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- ARGV[1]  lease      integer > 0, milliseconds
-- ARGV[2]  ids        string, 32 hex digits each: sending them twice changes nothing
-- ARGV[3]  channel    string, where waiters listen
--
-- Returns  nil when taken; else the milliseconds until the next lease ends (-1: none ends)
-- Source   RPermitExpirableSemaphore.tryAcquire, Redisson 4.7.0, with the server's clock
--          in place of the client's
-- Wire     the number and the zset; the new number on the channel when expired permits came back;
--          this code is our own
local semaphore, leases = KEYS[1], KEYS[2]
local lease, ids, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local PERMANENT = 922337203685477

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expired = redis.call('zremrangebyscore', leases, 0, now)
if expired > 0 then
  local back = redis.call('incrby', semaphore, expired)
  if back > 0 then
    redis.call(PUBLISH, channel, back)
  end
end

local members = {}
for id in ids:gmatch(('%x'):rep(32)) do
  members[#members + 1] = id:gsub('%x%x', function(byte) return string.char(tonumber(byte, 16)) end)
end
if redis.call('zscore', leases, members[1]) then
  return nil
end
local free = tonumber(redis.call('get', semaphore) or 0)
if not free then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
if free < #members then
  local next_end = redis.call('zrange', leases, 0, 0, 'withscores')[2]
  return next_end and tonumber(next_end) < PERMANENT and next_end - now or -1
end
redis.call('decrby', semaphore, #members)
for _, member in ipairs(members) do
  redis.call('zadd', leases, now + lease, member)
end
local ttl = redis.call('pttl', semaphore)
if ttl > 0 then
  redis.call('pexpire', leases, ttl)
end
return nil
