-- latch_try_set: set the count of a latch that has none; once, however often the call arrives.
--
-- KEYS     latch, request, total?
-- ARGV     number, count, ttl, idle, channel
--
-- Returns  1 when set, 0 when it has a count
-- Source   RCountDownLatch.trySetCount, Redisson 4.7.0
-- Wire     the count, and "1" on the channel; the total is ours alone

-- include: once

local made = redis.call('set', latch, count, 'nx') and '1' or '0'
redis.call('set', request, number .. ' ' .. made, 'px', ttl)
if made == '1' and total and redis.call('exists', total) == 1 then
  redis.call('set', total, count)
end

-- include: idle(latch, total)

if made == '1' then
  redis.call(PUBLISH, channel, '1')
end
return tonumber(made)
