-- lock_acquire: reach *depth* on a free or own lock, or learn how long its holder may keep it.
--
-- KEYS     lock
-- ARGV     lease, holder, depth
-- Returns  nil when held; else what is left of the other's lease, milliseconds (-1: never ends, -2:
--          a re-entry found no lock)
-- Source   RLock.tryLock
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
