-- latch_try_set: set the count of a latch that has none; once, however often it arrives.
--
-- KEYS[1]  latch    string, the count
-- KEYS[2]  request  string, what this call is known by when it arrives again
-- KEYS[3]  spent    string, the same of an answered call, to be removed; a key that is never there if there is none
-- ARGV[1]  count    integer > 0
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is remembered
-- ARGV[3]  publish  string, PUBLISH, SPUBLISH, or empty for no message
-- ARGV[4]  channel  string, where waiters listen
--
-- Returns  1 when set, 0 when it has a count
-- Source   RCountDownLatch.trySetCount, Redisson 4.7.0
-- Wire     the count, and "1" on the channel; this text is our own
local latch, request, spent, count, ttl, publish, channel = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('exists', request) == 1 then
  return 1
end
redis.call('del', spent)
if not redis.call('set', latch, count, 'nx') then
  return 0
end
redis.call('set', request, 1, 'px', ttl)
if publish ~= '' then
  redis.call(publish, channel, '1')
end
return 1
