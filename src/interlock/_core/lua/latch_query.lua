-- latch_query: tell the count, and how the latch ended last.
--
-- KEYS     latch, ending, total?
-- ARGV     idle
-- Returns  {count (0: no latch), ending (nil: none lately)}
-- Source   RCountDownLatch.getCount, Redisson 4.7.0
-- Wire     the TTL

local count = tonumber(redis.call('get', latch) or 0)
if not count then
  return redis.error_reply('WRONGTYPE this is not the count of a latch')
end

-- include: idle(latch, total)

return {count, redis.call('get', ending)}
