-- latch_query: tell the count, and how the latch ended last.
--
-- KEYS[1]  latch   string, the count
-- KEYS[2]  ending  string, how the latch ended last: "open <mark>" or "deleted <mark>"
--
-- Returns  {count (0: no latch), ending (nil: none lately)}
-- Source   RCountDownLatch.getCount, Redisson 4.7.0
-- Wire     nothing is written; this code is our own
local latch, ending = KEYS[1], KEYS[2]

local count = tonumber(redis.call('get', latch) or 0)
if not count then
  return redis.error_reply('WRONGTYPE this is not the count of a latch')
end
return {count, redis.call('get', ending)}
