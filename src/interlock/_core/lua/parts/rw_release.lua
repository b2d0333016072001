-- rw_release (part): go down to *depth*; at 0 leave, and the first in the queue come in if they fit.
local held = redis.call('hexists', lock, holder) == 1
local deaf = holder .. '?' -- its place while its client cannot listen
if held and depth ~= '0' then
  redis.call('hdel', lock, '') -- a full server refuses HSET, but only as the first write
  redis.call('hset', lock, holder, depth)
  if entry and queue then
    redis.call('zrem', queue, holder, deaf)
  end
  return 1
end
redis.call('hdel', lock, holder)
if entry then
  redis.call('del', entry)
end
local stood = queue and redis.call('zrem', queue, holder, deaf) > 0
local answer = held and 1 or stood and 0 or nil
local mode, inside = redis.call('hget', lock, 'mode'), redis.call('hlen', lock) > 1
local freed, downgraded = entry and '0' or '1', held and not entry and inside
if downgraded then
  mode = 'read'
  redis.call('hset', lock, 'mode', mode)
end
local waited = queue and redis.call('exists', queue) == 1
-- A reader that leaves others behind lets nobody in, or a batch of readers would cost its square.
if not waited or inside and entry and held then
  if mode and not inside then
    redis.call('del', lock)
    if coming then
      redis.call('del', coming)
    end
  end
  if held and (downgraded or not inside) then
    redis.pcall(PUBLISH, channel, freed)
  end
  return answer
end

-- include: rw_queue

if not answer then
  return {missed(0)} -- it was released before, and perhaps nobody read whom that told to be next
end
sweep()
if how == '1' and free() then
  local one, client, number = first()
  if one and others then
    redis.call('del', lock)
    redis.pcall(PUBLISH, channel, '0' .. freed)
    if string.sub(one, -1) ~= '?' then
      redis.pcall(PUBLISH, wakes .. client, number)
    end
    return answer
  end
end
local caller = held and how ~= '-' and string.match(holder, '^[^:]*') or ''
local numbers, told, came = advance(caller, '1')
if not came and free() then
  redis.call('del', lock)
  if held then
    redis.pcall(PUBLISH, channel, freed)
  end
elseif others and (came == 'read' or downgraded) then
  redis.pcall(PUBLISH, channel, '01') -- Java's readers may come in as well
end
return numbers and {numbers, told} or answer
