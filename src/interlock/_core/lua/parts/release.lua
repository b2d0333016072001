-- release (part): go down to *depth*; at 0 the first in the queue holds the lock, or it is free.
-- include: down

-- It stands in front, as a rule, and the next one behind it.
local two = queue and redis.call('zrange', queue, '0', '1', 'withscores') or {}
if not two[1] then
  if held then
    redis.call('del', lock)
    redis.pcall(PUBLISH, channel, '0')
  end
  return held and 1 or nil
end
local deaf = holder .. '?' -- its place while its client cannot listen
local stood = redis.call('zrem', queue, holder, deaf) > 0
local found = two[3] ~= holder and two[3] ~= deaf
  and ((two[1] == holder or two[1] == deaf) and {two[3], two[4]} or two)
if not held and stood and redis.call('exists', lock) == 1 then
  return 0
end

-- include: queue

if not held and not stood then
  return {missed(0)} -- it was released before, and perhaps nobody read whom that told to be next
end
local one, client, number = first(found)
if one and not (others and how == '1') then
  local caller = held and how ~= '-' and string.match(holder, '^[^:]*') or ''
  local answer = grant(one, client, number, caller, '1') -- the key never goes away in between
  redis.call('hdel', lock, holder)
  return held and answer or 0
end
redis.call('del', lock)
redis.pcall(PUBLISH, channel, one and '00' or '0')
if one and string.sub(one, -1) ~= '?' then
  redis.pcall(PUBLISH, wakes .. client, number)
end
return held and 1 or 0
