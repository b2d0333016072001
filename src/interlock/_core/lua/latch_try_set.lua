-- latch_try_set: set the count of a latch that has none; once, however often the call arrives.
--
-- KEYS[1]  number   string, the count
-- KEYS[2]  request  string, the answer to this call, for copies of it
-- KEYS[3]  spent    string, the same of an answered call, to be removed; if there is none, a key
--                   that never exists
-- KEYS[4]  total    string, the count that the latch was set up with; may be left out
-- ARGV[1]  count    integer > 0
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is remembered
-- ARGV[3]  channel  string, where waiters listen
--
-- Returns  1 when set, 0 when it has a count
-- Source   RCountDownLatch.trySetCount, Redisson 4.7.0
-- Wire     the count, and "1" on the channel; the total is ours alone, and so is this code
local number, request, spent, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local count, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

-- include: make_number

if total and redis.call('exists', total) == 1 then
  redis.call('set', total, count)
end
redis.call(PUBLISH, channel, '1')
return 1
