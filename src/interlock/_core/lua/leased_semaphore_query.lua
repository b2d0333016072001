-- leased_semaphore_query: take the expired permits back, then tell how many are free and held.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  leases     zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- ARGV[1]  channel    string, where waiters listen
--
-- Returns  {free, held}
-- Source   RPermitExpirableSemaphore.availablePermits, acquiredPermits and getPermits,
--          Redisson 4.7.0
-- Wire     the number, the zset, and the new number on the channel when expired permits came back;
--          this code is our own
local semaphore, leases, channel = KEYS[1], KEYS[2], ARGV[1]

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expired = redis.call('zremrangebyscore', leases, 0, now)
if expired > 0 then
  local back = redis.call('incrby', semaphore, expired)
  if back > 0 then
    redis.call(PUBLISH, channel, back)
  end
end
local free = tonumber(redis.call('get', semaphore) or 0)
if not free then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
return {free, redis.call('zcard', leases)}
