-- wait (part): let *member* stand in the condition and end the hold of *holder* as $1 does.
--
-- If *holder* has no hold, this may be a copy of an answered call: its waiter is found, wherever that
-- stands by now.
local time = redis.call('time')
local at = time[1] .. string.sub('00000' .. time[2], -6)
if redis.call('hexists', lock, holder) == 0 then
  local known = redis.call('zscore', condition, member)
    or queue and redis.call('zscore', queue, member)
    or redis.call('hexists', lock, string.match(member, '^[^?]*')) == 1
  return known and {at} or nil
end
local latest = tonumber(redis.call('zrange', condition, '-1', '-1', 'withscores')[2] or 0)
redis.call('zadd', condition, latest >= tonumber(at) and latest + 1 or at, member)
redis.call('pexpire', condition, '60000')

local depth = '0'
local function leave()
  -- include: $1
end
local answer = leave()
return type(answer) == 'table' and {at, answer[1], answer[2]} or {at}
