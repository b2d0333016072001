-- write_acquire: come in as the writer, if nobody is in; or reach *depth* as the one who is.
--
-- KEYS     lock
-- ARGV     #lease, holder, depth
-- Returns  nil when held; else what is left of the others' lease, milliseconds (-2: nobody is in)
-- Source   RedissonWriteLock.tryLockInnerAsync, without adding up leases
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
