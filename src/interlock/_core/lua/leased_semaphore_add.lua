-- leased_semaphore_add: add or remove permits; once, however often the call arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, the latch of this call: the permits it took, negative if it gave some
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; if there is none, a
--                     key that never exists
-- ARGV[1]  permits    integer, not 0
-- ARGV[2]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[3]  channel    string, where waiters listen
--
-- Returns  1
-- Source   RPermitExpirableSemaphore.addPermits, Redisson 4.7.0
-- Wire     the number, whose TTL stays; on the channel how many were added; this code is our own
local semaphore, request, spent = KEYS[1], KEYS[2], KEYS[3]
local permits, ttl, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3]

if redis.call('exists', request) == 1 then
  return 1
end
if not tonumber(redis.call('get', semaphore) or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
redis.call('incrby', semaphore, permits)
redis.call('del', spent)
redis.call('set', request, -permits, 'px', ttl)
if permits > 0 then
  redis.call(PUBLISH, channel, permits)
end
return 1
