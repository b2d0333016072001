-- write_acquire: come in as the writer, if nobody is in; or reach *depth* as the one who is.
--
-- A depth above 1 is a re-entry: it does not come in again if the lock was lost meanwhile.
--
-- KEYS     lock
-- ARGV     #lease, holder, depth
-- Returns  nil when held; else what is left of the others' lease, milliseconds (-2: nobody is in)
-- Source   RedissonWriteLock.tryLockInnerAsync, Redisson 4.7.0, without adding up leases
-- Wire     the hash and its TTL

local left = redis.call('pttl', lock)
local free = left == -2 and depth == '1'
if not free and redis.call('hexists', lock, holder) == 0 then
  return left
end
redis.call('hset', lock, 'mode', 'write', holder, depth)
if left < lease then
  redis.call('pexpire', lock, lease)
end
return nil
