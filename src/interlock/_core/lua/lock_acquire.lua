-- lock_acquire: reach *depth* on a free or own lock, or learn how long its holder may keep it.
--
-- A depth above 1 is a re-entry: it does not take the lock again if it was lost meanwhile.
--
-- KEYS[1]  lock    hash {holder: depth}; its TTL is the lease
-- ARGV[1]  lease   integer > 0, milliseconds
-- ARGV[2]  holder  string, "<client>:<number>", and "/<ms>" if its lease is below 3 s
-- ARGV[3]  depth   integer > 0, the depth to reach: sending it twice changes nothing
--
-- Returns  nil when held; else what is left of the other's lease, milliseconds (-1: never ends, -2:
--          a re-entry found no lock)
-- Source   RLock.tryLock, Redisson 4.7.0
-- Wire     the hash and its TTL; this code is our own
local lock, lease, holder, depth = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

local free = depth == '1' and redis.call('exists', lock) == 0
if not free and redis.call('hexists', lock, holder) == 0 then
  return redis.call('pttl', lock)
end
redis.call('hset', lock, holder, depth)
if free or redis.call('pttl', lock) < tonumber(lease) then
  redis.call('pexpire', lock, lease)
end
return nil
