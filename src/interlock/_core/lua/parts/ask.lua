-- ask (part): hold a free lock, or find out that it is held already; else stand in its queue.
local member = holder .. deaf
local function take()
  redis.call('hset', lock, holder, '1')
  -- include: extend(lock, lease)
  return draw and {draw(true)} or {'', ''}
end

local left = redis.call('pttl', lock)
local free = left == -2
local held = not free and redis.call('hexists', lock, holder) == 1
if held then
  redis.call('hdel', lock, '') -- a full server refuses HSET to one that was granted it, else
end
if held or free and (not queue or redis.call('exists', queue) == 0) then
  return take()
end

-- include: queue, queued

local score = redis.call('zscore', queue, member)
if free and score then
  local one, client, number = first()
  if not one or one == member then
    redis.call('zrem', queue, member)
    return take()
  end
  grant(one, client, number, '', '0')
  left = redis.call('pttl', lock)
elseif score and string.sub(score, 1, 1) == '-' then
  -- Its grant has ended, and another one came in between: a mark would blame it for that one's end.
  redis.call('zrem', queue, member)
end

-- include: join, refusal

return answer
