-- leased_semaphore_set: set the sum of free and held permits, and tell the waiters.
--
-- A copy that comes after another one was executed does nothing, so it cannot undo a later call.
--
-- KEYS[1]  semaphore  string, the number of free permits; negative while too many are held
-- KEYS[2]  leases     zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- KEYS[3]  request    string; exists once this call has taken effect; may be left out, with ttl
-- ARGV[1]  permits    integer >= 0, the new sum: sending it twice changes nothing
-- ARGV[2]  channel    string, where waiters listen
-- ARGV[3]  ttl        integer > 0, milliseconds that the request is remembered; may be left out
--
-- Returns  1
-- Source   RPermitExpirableSemaphore.setPermits, Redisson 4.7.0
-- Wire     the number, the request, and the new sum on the channel; this code is our own
local semaphore, leases, request = KEYS[1], KEYS[2], KEYS[3]
local permits, channel, ttl = tonumber(ARGV[1]), ARGV[2], ARGV[3]

if request and redis.pcall('exists', request) == 1 then
  return 1
end
local free = tonumber(redis.call('get', semaphore) or 0)
if not free then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
local missing = permits - free - redis.call('zcard', leases)
if missing ~= 0 or redis.call('exists', semaphore) == 0 then
  redis.call('incrby', semaphore, missing)
  redis.call(PUBLISH, channel, permits)
end
if request then
  redis.pcall('set', request, 1, 'px', ttl)
end
return 1
