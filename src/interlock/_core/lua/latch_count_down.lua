-- latch_count_down: take one from the count; at 0 open the latch and tell the waiters.
--
-- A call counts once, however often it arrives.
--
-- KEYS     latch, request, ending, total?
-- ARGV     number, ttl, client, kept, channel, count, idle
--
-- Returns  as for latch_set_up; 0 when nobody has set the count
-- Source   RCountDownLatch.countDown, Redisson 4.7.0
-- Wire     the count, which is removed at 0, and "0" on the channel then; "1" when it is set; the
--          total is ours alone

-- include: once, named_count

local answer = known or '-' .. (left or '0')
-- Also if the latch is open: a copy must not count down the next one.
redis.call('set', request, number .. ' ' .. answer, 'px', ttl)
if left then
  local now = redis.call('decr', latch)
  if now <= 0 then
    redis.call('del', latch)
  end
  if now == 0 then
    redis.call('set', ending, 'open ' .. client .. ':' .. number, 'px', kept)
    redis.call(PUBLISH, channel, '0')
  end
end

-- include: idle(latch, total)

return tonumber(answer)
