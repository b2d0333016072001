-- named_count (part): set the latch to *count*, unless that is '' or was done in its life. *known* is
-- what it was set up with, and *left* what is left.
local left, known = redis.call('get', latch), total and redis.call('get', total)
if not tonumber(left or 0) or not tonumber(known or 0) then
  return redis.error_reply('WRONGTYPE this is not the count of a latch')
end
redis.call('del', request) -- a full server refuses most writes, but only as the first one
if count ~= '' and total and not left and not known then
  redis.call('set', total, count)
  redis.call('set', latch, count)
  redis.call(PUBLISH, channel, '1')
  left, known = count, count
end
