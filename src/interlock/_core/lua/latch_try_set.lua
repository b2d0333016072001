-- latch_try_set: set the count of a latch that has none; once, however often the call arrives.
--
-- KEYS[1]  latch    string, the count
-- KEYS[2]  request  string, "<number> <answer>": the last call with this key
-- KEYS[3]  total    string, the count that the latch was set up with; may be left out
-- ARGV[1]  number   integer of 12 digits, tells this call from those before it
-- ARGV[2]  count    integer > 0
-- ARGV[3]  ttl      integer > 0, milliseconds that the request is kept
-- ARGV[4]  idle     as for latch_set_up
-- ARGV[5]  channel  string, where waiters listen
--
-- Returns  1 when set, 0 when it has a count
-- Source   RCountDownLatch.trySetCount, Redisson 4.7.0
-- Wire     the count, and "1" on the channel; the total is ours alone, and so is this code
local latch, request, total = KEYS[1], KEYS[2], KEYS[3]
local number, count, ttl, idle, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- include: once

local made = redis.call('set', latch, count, 'nx') and '1' or '0'
redis.call('set', request, number .. ' ' .. made, 'px', ttl)
if made == '1' and total and redis.call('exists', total) == 1 then
  redis.call('set', total, count)
end

-- include: idle_latch

if made == '1' then
  redis.call(PUBLISH, channel, '1')
end
return tonumber(made)
