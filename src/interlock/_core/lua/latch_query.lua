-- latch_query: tell the count, and how the latch ended last.
--
-- KEYS     latch, ending, total?
-- ARGV     idle
-- Returns  {count (0: no latch), ending (nil: none lately)}
-- Source   RCountDownLatch.getCount
-- Wire     the TTL

local count = redis.call('get', latch)
-- include: number(count, the count of a latch), idle(latch, total)
return {tonumber(count or 0), redis.call('get', ending)}
