-- latch_count_down: take one from the count; at 0 open the latch and tell the waiters.
--
-- A call counts once, however often it arrives.
--
-- KEYS[1]  latch    string, the count
-- KEYS[2]  request  string, "<number> <answer>": the last call with this key
-- KEYS[3]  ending   string, how the latch ended last, for its waiters: "open <mark>" or
--                   "deleted <mark>"
-- KEYS[4]  total    string, the count that it was set up with; it stays until the latch is deleted;
--                   may be left out
-- ARGV[1]  number   integer of 12 digits, tells this call from those before it
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is kept
-- ARGV[3]  client   string, the client's id: with the number it tells this ending from others
-- ARGV[4]  kept     integer > 0, milliseconds that the ending is remembered
-- ARGV[5]  channel  string, where waiters listen
-- ARGV[6]  count    integer > 0, to set first if it was never set up; "": nothing to set
-- ARGV[7]  idle     as for latch_set_up
--
-- Returns  as for latch_set_up; 0 when nobody has set the count
-- Source   RCountDownLatch.countDown, Redisson 4.7.0
-- Wire     the count, which is removed at 0, and "0" on the channel then; "1" when it is set; the
--          total is ours alone, and so is this code
local latch, request, ending, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local number, ttl, client, kept, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local count, idle = ARGV[6], ARGV[7]

-- include: once

-- include: named_count

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

-- include: idle_latch

return tonumber(answer)
