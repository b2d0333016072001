-- leased_semaphore_release: give back the permits of all ids still held, and tell the waiters.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  leases     zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- ARGV[1]  ids        string, 32 hex digits each: sending them twice changes nothing
-- ARGV[2]  channel    string, where waiters listen
--
-- Returns  1 when all ids were held, else 0
-- Source   RPermitExpirableSemaphore.tryRelease, Redisson 4.7.0, with the server's clock
--          in place of the client's
-- Wire     the number and the zset; on the channel the new number, or with several ids how many
--          came back; this code is our own
local semaphore, leases, ids, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expired = redis.call('zremrangebyscore', leases, 0, now)
if expired > 0 then
  local back = redis.call('incrby', semaphore, expired)
  if back > 0 then
    redis.call(PUBLISH, channel, back)
  end
end

local wanted, removed = 0, 0
for id in ids:gmatch(('%x'):rep(32)) do
  local member = id:gsub('%x%x', function(byte) return string.char(tonumber(byte, 16)) end)
  wanted = wanted + 1
  removed = removed + redis.call('zrem', leases, member)
end
if removed > 0 then
  local free = redis.call('incrby', semaphore, removed)
  local news = wanted == 1 and free or removed
  if news >= 0 then
    redis.call(PUBLISH, channel, news)
  end
end
return removed == wanted and 1 or 0
