-- leased_semaphore_release: give back the permits of all ids still held, and tell the waiters.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  leases     zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- KEYS[3]  queue      zset {client: when it came, in ms}; may be left out
-- ARGV[1]  ids        string, 32 hex digits each: sending them twice changes nothing
-- ARGV[2]  channel    string, where waiters listen
--
-- Returns  1 when all ids were held, 3 when clients in the queue were told that they are next, or
--          when to look, too; else 0
-- Source   RPermitExpirableSemaphore.tryRelease, Redisson 4.7.0, with the server's clock
--          in place of the client's
-- Wire     the number and the zset; on the channel the new number, or with several ids how many
--          came back. With clients in the queue, the first ones get the permits for 250 ms and
--          messages on their wake channels instead, unless others listen; this code is our own
local semaphore, leases, queue = KEYS[1], KEYS[2], KEYS[3]
local ids, channel = ARGV[1], ARGV[2]

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expired = redis.call('zremrangebyscore', leases, 0, now)
local back = expired > 0 and redis.call('incrby', semaphore, expired) or 0

-- include: raw

local wanted, removed = 0, 0
for id in ids:gmatch(('%x'):rep(32)) do
  local member = raw(id)
  wanted = wanted + 1
  removed = removed + redis.call('zrem', leases, member)
end
local answer = removed == wanted and 1 or 0
local free = removed > 0 and redis.call('incrby', semaphore, removed) or back
if free <= 0 or not queue or redis.pcall('exists', queue) ~= 1 then
  if back > 0 then
    redis.call(PUBLISH, channel, back)
  end
  local news = wanted == 1 and free or removed
  if removed > 0 and news >= 0 then
    redis.call(PUBLISH, channel, news)
  end
  return answer
end

-- include: members

-- include: microseconds

-- include: grant

-- include: share

-- include: claim_permits

local given = share(free, give, take_back)
return answer == 1 and given and 3 or answer
