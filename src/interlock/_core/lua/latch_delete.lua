-- latch_delete: remove a latch and tell the waiters that it will not open; once for each call.
--
-- KEYS[1]  latch    string, the count
-- KEYS[2]  request  string, "<number> <answer>": the last call with this key
-- KEYS[3]  ending   string, how the latch ended last, for its waiters: "open <mark>" or
--                   "deleted <mark>"
-- KEYS[4]  total    string, the count that the latch was set up with; may be left out
-- ARGV[1]  number   integer of 12 digits, tells this call from those before it
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is kept
-- ARGV[3]  client   string, the client's id: with the number it tells this ending from others
-- ARGV[4]  kept     integer > 0, milliseconds that the ending is remembered
-- ARGV[5]  channel  string, where waiters listen
--
-- Returns  1 when there was a latch, or an open one that was set up, else 0
-- Source   RCountDownLatch.delete, Redisson 4.7.0
-- Wire     the count, and "1" on the channel; the total is ours alone, and so is this code
local latch, request, ending, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local number, ttl, client, kept, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- include: once

local count = redis.call('get', latch)
if not tonumber(count or 0) then
  return redis.error_reply('WRONGTYPE this is not the count of a latch')
end
local found = redis.call('del', latch)
if found == 1 then
  redis.call('set', ending, 'deleted ' .. client .. ':' .. number, 'px', kept)
  redis.call(PUBLISH, channel, '1')
end
if total and redis.call('del', total) == 1 then
  found = 1
end
redis.call('set', request, number .. ' ' .. found, 'px', ttl)
return found
