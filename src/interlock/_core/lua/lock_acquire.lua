-- lock_acquire: reach *depth* on a free or own lock, or learn how long its holder may keep it.
--
-- A depth above 1 is a re-entry: it never takes a lock anew that was lost meanwhile.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- ARGV[1]  lease    integer > 0, milliseconds
-- ARGV[2]  holder   string, "<client id>:<number>"
-- ARGV[3]  depth    integer > 0, the depth to reach: sending it twice changes nothing
--
-- Returns  nil when held; else what is left of the other's lease, milliseconds (-1: never ends, -2: a re-entry found no lock)
-- Source   RLock.tryLock, Redisson 4.7.0
-- Wire     the hash and its TTL; this text is our own
local lock, lease, holder, depth = KEYS[1], tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])

local ours = redis.call('hexists', lock, holder) == 1
local free = depth == 1 and redis.call('exists', lock) == 0
if not ours and not free then
  return redis.call('pttl', lock)
end
redis.call('hset', lock, holder, depth)
if free or redis.call('pttl', lock) < lease then
  redis.call('pexpire', lock, lease)
end
return nil
