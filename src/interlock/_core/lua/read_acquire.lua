-- read_acquire: come in as a reader, if nobody waits; or reach *depth* as one who is in.
--
-- KEYS     lock, entry, queue?
-- ARGV     #lease, holder, depth, written?
-- Returns  nil when held; else what is left of the others' lease, milliseconds (-2: nobody is in)
-- Source   RedissonReadLock.tryLockInnerAsync; our readers wait behind our writers
-- Wire     the hash, the entry and their TTLs

local mode, held, writes = unpack(redis.call('hmget', lock, 'mode', holder, written))
local left = redis.call('pttl', lock)
if not held then
  local open
  if left == -2 then
    open = not (queue and redis.call('exists', queue) == 1)
  elseif mode == 'read' then
    open = not (queue and redis.call('zcount', queue, '0', '+inf') > 0)
  else
    open = mode and writes
  end
  if not open or depth ~= '1' then
    return left
  end
end
redis.call('hset', lock, 'mode', mode or 'read', holder, depth)
if left < lease then
  redis.call('pexpire', lock, lease)
end
if not held or redis.call('pttl', entry) < lease then
  redis.call('set', entry, '1', 'px', lease)
end
if held and queue then
  redis.call('zrem', queue, holder, holder .. '?') -- its mark ends with its first command
end
return nil
