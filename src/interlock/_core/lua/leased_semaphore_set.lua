-- leased_semaphore_set: set the sum of free and held permits, and tell the waiters.
--
-- KEYS[1]  semaphore  string, the number of free permits; negative while too many are held
-- KEYS[2]  leases     zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- ARGV[1]  permits    integer >= 0, the new sum: sending it twice changes nothing
-- ARGV[2]  channel    string, where waiters listen
--
-- Returns  1
-- Source   RPermitExpirableSemaphore.setPermits, Redisson 4.7.0
-- Wire     the number, and the new sum on the channel; this code is our own
local semaphore, leases = KEYS[1], KEYS[2]
local permits, channel = tonumber(ARGV[1]), ARGV[2]

local free = tonumber(redis.call('get', semaphore) or 0)
if not free then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
local missing = permits - free - redis.call('zcard', leases)
if missing ~= 0 or redis.call('exists', semaphore) == 0 then
  redis.call('incrby', semaphore, missing)
  redis.call(PUBLISH, channel, permits)
end
return 1
