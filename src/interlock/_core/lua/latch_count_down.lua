-- latch_count_down: take one from the count; at 0 open the latch and tell the waiters.
--
-- A call counts once, however often it arrives.
--
-- KEYS[1]  latch    string, the count
-- KEYS[2]  request  string; exists once this call was executed, so that a copy does nothing
-- KEYS[3]  spent    string, the same of an answered call, to be removed; if there is none, a key
--                   that never exists
-- KEYS[4]  ending   string, how the latch ended last, for its waiters: "open <mark>" or
--                   "deleted <mark>"
-- KEYS[5]  total    string, the count that it was set up with; it stays until the latch is
--                   deleted; may be left out, with the count
-- ARGV[1]  ttl      integer > 0, milliseconds that the request is remembered
-- ARGV[2]  mark     string, tells this ending from others
-- ARGV[3]  kept     integer > 0, milliseconds that the ending is remembered
-- ARGV[4]  channel  string, where waiters listen
-- ARGV[5]  count    integer > 0, to set first if it was never set up; may be left out
-- ARGV[6]  ends     integer >= 0, milliseconds after which what is set so ends by itself, 0 for
--                   never; may be left out, with the count
--
-- Returns  1
-- Source   RCountDownLatch.countDown, Redisson 4.7.0
-- Wire     the count, which is removed at 0, and "0" on the channel then; "1" when it is set; the
--          total is ours alone, and so is this code
local latch, request, spent, ending, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ttl, mark, kept, channel, count = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local ends = ARGV[6]

if redis.call('exists', request) == 1 then
  return 1
end
local before = redis.call('get', latch)
if not tonumber(before or 0) then
  return redis.error_reply('WRONGTYPE this is not the count of a latch')
end
-- When memory is full, the server lets a DEL through, and then all writes that follow. The
-- waiters must go on even then.
redis.call('del', spent)
-- Also if the latch is open: a copy must not count down the next one.
redis.call('set', request, 1, 'px', ttl)
if not before and total and redis.call('exists', total) == 0 then
  redis.call('set', total, count)
  redis.call('set', latch, count)
  if ends ~= '0' then
    redis.call('pexpire', total, ends)
    redis.call('pexpire', latch, ends)
  end
  redis.call(PUBLISH, channel, '1')
elseif not before then
  return 1
end
local left = redis.call('decr', latch)
if left <= 0 then
  redis.call('del', latch)
end
if left == 0 then
  redis.call('set', ending, 'open ' .. mark, 'px', kept)
  redis.call(PUBLISH, channel, '0')
end
return 1
