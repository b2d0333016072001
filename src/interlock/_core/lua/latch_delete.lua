-- latch_delete: remove a latch and tell the waiters that it will not open; once for each call.
--
-- KEYS     latch, request, ending, total?
-- ARGV     number, ttl, client, kept, channel
--
-- Returns  1 when there was a latch, or an open one that was set up, else 0
-- Source   RCountDownLatch.delete, Redisson 4.7.0
-- Wire     the count, and "1" on the channel; the total is ours alone

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
