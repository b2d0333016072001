-- semaphore_try_set: make a semaphore that is missing, and tell the waiters; once, however often it arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, the latch of this call
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; a key that is never there if there is none
-- ARGV[1]  permits    integer >= 0
-- ARGV[2]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[3]  publish    string, PUBLISH, SPUBLISH, or empty for no message
-- ARGV[4]  channel    string, where waiters listen
--
-- Returns  1 when made, 0 when it was there
-- Source   RSemaphore.trySetPermits and RPermitExpirableSemaphore.trySetPermits, Redisson 4.7.0
-- Wire     the number, and the same on the channel; this text is our own
local semaphore, request, spent, permits, ttl, publish, channel = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('exists', request) == 1 then
  return 1
end
redis.call('del', spent)
if not redis.call('set', semaphore, permits, 'nx') then
  return 0
end
redis.call('set', request, 1, 'px', ttl)
if publish ~= '' then
  redis.call(publish, channel, permits)
end
return 1
