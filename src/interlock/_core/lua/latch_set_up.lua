-- latch_set_up: set the count that the code of a client names, once in the life of a latch.
--
-- An open latch looks like one that was never set. So a key of its own tells that it was set up.
-- A call counts once, however often it arrives.
--
-- KEYS[1]  latch    string, the count
-- KEYS[2]  total    string, the count that it was set up with; it stays until the latch is deleted
-- KEYS[3]  request  string, the answer to this call, for copies of it
-- KEYS[4]  spent    string, the same of an answered call, to be removed; if there is none, a key
--                   that never exists
-- ARGV[1]  count    integer > 0
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is remembered
-- ARGV[3]  channel  string, where waiters listen
--
-- Returns  the count that it was set up with, now or before; if that is not known because another
--          program has set the count, what is left of it, below 0
-- Source   our own
-- Wire     the count, and "1" on the channel when it is set; the total is ours alone
local latch, total, request, spent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local count, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local before = redis.call('get', request)
if before then
  return tonumber(before)
end
local left, known = redis.call('get', latch), redis.call('get', total)
if not tonumber(left or 0) or not tonumber(known or 0) then
  return redis.error_reply('WRONGTYPE this is not the count of a latch')
end
redis.call('del', spent)
if not left and not known then
  redis.call('set', total, count)
  redis.call('set', latch, count)
  redis.call(PUBLISH, channel, '1')
  known = count
end
local answer = known or '-' .. left
redis.call('set', request, answer, 'px', ttl)
return tonumber(answer)
