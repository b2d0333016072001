-- rw_ask (part): come in, or find out who is in; else stand in the queue.
local member = holder .. deaf
local function take(side)
  redis.call('hset', lock, 'mode', side, holder, '1')
  -- include: extend(lock, lease)
  if entry and redis.call('pttl', entry) < lease then
    redis.call('set', entry, '1', 'px', lease)
  end
  if queue then
    redis.call('zrem', queue, member)
  end
  return {'', ''}
end

local mode, left = redis.call('hget', lock, 'mode'), redis.call('pttl', lock)
local held = redis.call('hexists', lock, holder) == 1
if held then
  redis.call('hdel', lock, '') -- a full server refuses HSET to one that was let in, else
end
if held
  or left == -2 and not (queue and redis.call('exists', queue) == 1)
  or entry and mode == 'write' and redis.call('hexists', lock, written) == 1
  or entry and mode == 'read' and not (queue and redis.call('zcount', queue, '0', '+inf') > 0) then
  return take(mode or entry and 'read' or 'write')
end

-- include: rw_queue, queued

local score = redis.call('zscore', queue, member)
if score and string.sub(score, 1, 1) == '-' then
  -- Its grant has ended, and another one came in between: a mark would blame it for that one's end.
  redis.call('zrem', queue, member)
end
sweep()

-- include: join

-- Readers all of whose entries have ended are gone; not so who may still come, and who has entered
-- once more since it was named.
local given = {}
for i = 7, #ARGV do
  local reader = ARGV[i]
  other = KEYS[#KEYS - #ARGV + i]
  given[reader] = (given[reader] or 0) + 1
  may_come[reader] = may_come[reader] or redis.call('exists', other) == 1
end
for reader, entries in pairs(given) do
  if not may_come[reader] and tonumber(redis.call('hget', lock, reader) or 0) <= entries then
    redis.call('hdel', lock, reader)
  end
end

if score or mode == 'read' and not free() then
  local _, _, _, mine = advance('', '0', member)
  if mine or score and free() then -- nobody else can be told
    return take(redis.call('hget', lock, 'mode') or entry and 'read' or 'write')
  end
end
if free() then
  redis.call('del', lock)
end
if entry then
  redis.call('set', entry, '1', 'px', math.max(KEEP, lease))
end
left = redis.call('pttl', lock)

-- include: refusal

if joined == 0 and redis.call('hget', lock, 'mode') == 'read' then
  local all = redis.call('hgetall', lock)
  local count = #all / 2
  for i = 0, math.min(count, 100) - 1 do
    local at = 2 * ((now + i) % count) -- another hundred each time
    answer[#answer + 1], answer[#answer + 2] = all[at + 1], all[at + 2]
  end
end
return answer
