-- latch_delete: remove a latch and tell the waiters that it will not open.
--
-- KEYS[1]  latch    string, the count
-- KEYS[2]  ending   string, how the latch ended last, for its waiters: "open <mark>" or
--                   "deleted <mark>"
-- ARGV[1]  mark     string, tells this ending from others: sending it twice changes nothing
-- ARGV[2]  kept     integer > 0, milliseconds that the ending is remembered
-- ARGV[3]  channel  string, where waiters listen
--
-- Returns  1 when there was a latch, else 0
-- Source   RCountDownLatch.delete, Redisson 4.7.0
-- Wire     the count, and "1" on the channel; this code is our own
local latch, ending = KEYS[1], KEYS[2]
local mark, kept, channel = ARGV[1], ARGV[2], ARGV[3]

if redis.call('get', ending) == 'deleted ' .. mark then
  return 1
end
local count = redis.call('get', latch)
if not count then
  return 0
end
if not tonumber(count) then
  return redis.error_reply('WRONGTYPE this is not the count of a latch')
end
redis.call('del', latch)
redis.call('set', ending, 'deleted ' .. mark, 'px', kept)
redis.call(PUBLISH, channel, '1')
return 1
