-- latch_delete: remove a latch and tell the waiters that it will not open.
--
-- KEYS[1]  latch    string, the count
-- KEYS[2]  ending   string, how the latch ended last, for its waiters: "open <mark>" or
--                   "deleted <mark>"
-- KEYS[3]  total    string, the count that the latch was set up with; may be left out
-- ARGV[1]  mark     string, tells this ending from others: sending it twice changes nothing
-- ARGV[2]  kept     integer > 0, milliseconds that the ending is remembered
-- ARGV[3]  channel  string, where waiters listen
--
-- Returns  1 when there was a latch, or an open one that was set up, else 0
-- Source   RCountDownLatch.delete, Redisson 4.7.0
-- Wire     the count, and "1" on the channel; the total is ours alone, and so is this code
local latch, ending, total = KEYS[1], KEYS[2], KEYS[3]
local mark, kept, channel = ARGV[1], ARGV[2], ARGV[3]

local last = redis.call('get', ending)
if last == 'deleted ' .. mark or last == 'open ' .. mark then
  return 1
end
local count = redis.call('get', latch)
if not tonumber(count or 0) then
  return redis.error_reply('WRONGTYPE this is not the count of a latch')
end
local set_up = total and redis.call('del', total) or 0
if not count then
  if set_up == 1 then
    -- It was open. A copy must not delete the next one.
    redis.call('set', ending, 'open ' .. mark, 'px', kept)
  end
  return set_up
end
redis.call('del', latch)
redis.call('set', ending, 'deleted ' .. mark, 'px', kept)
redis.call(PUBLISH, channel, '1')
return 1
