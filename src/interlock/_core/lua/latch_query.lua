-- latch_query: tell the count, and how the latch ended last.
--
-- KEYS[1]  latch   string, the count
-- KEYS[2]  ending  string, how the latch ended last: "open <mark>" or "deleted <mark>"
-- KEYS[3]  total   string, the count that it was set up with; may be left out
-- ARGV[1]  idle    as for latch_set_up
--
-- Returns  {count (0: no latch), ending (nil: none lately)}
-- Source   RCountDownLatch.getCount, Redisson 4.7.0
-- Wire     the TTL; this code is our own
local latch, ending, total, idle = KEYS[1], KEYS[2], KEYS[3], ARGV[1]

local count = tonumber(redis.call('get', latch) or 0)
if not count then
  return redis.error_reply('WRONGTYPE this is not the count of a latch')
end

-- include: idle_latch

return {count, redis.call('get', ending)}
