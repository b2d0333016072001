-- lock_acquire: reach *depth* on a free or own lock, or learn how long its holder may keep it.
--
-- A depth above 1 is a re-entry: it does not take the lock again if it was lost meanwhile.
--
-- KEYS     lock
-- ARGV     lease, holder, depth
-- Returns  nil when held; else what is left of the other's lease, milliseconds (-1: never ends, -2:
--          a re-entry found no lock)
-- Source   RLock.tryLock, Redisson 4.7.0
-- Wire     the hash and its TTL

local free = depth == '1' and redis.call('exists', lock) == 0
if not free and redis.call('hexists', lock, holder) == 0 then
  return redis.call('pttl', lock)
end
redis.call('hset', lock, holder, depth)
if free or redis.call('pttl', lock) < tonumber(lease) then
  redis.call('pexpire', lock, lease)
end
return nil
