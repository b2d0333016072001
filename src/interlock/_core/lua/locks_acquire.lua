-- locks_acquire: take several free locks at once, all or none.
--
-- KEYS     lock...
-- ARGV     lease, holder...
-- Returns  nil when all are held; else what is left of the lease of the first that is not free,
--          milliseconds (-1: never ends)
-- Source   RedissonMultiLock, which takes one lock after the other
-- Wire     the hashes and their TTLs, as of lock_acquire

local names = {}
for i, each in ipairs(KEYS) do
  names[i] = each
  lock = each
  if redis.call('exists', lock) == 1 then
    redis.call('hexists', lock, ARGV[i + 1]) -- fails if it is no lock
    return redis.call('pttl', lock)
  end
end
for i, each in ipairs(names) do
  lock = each
  redis.call('hset', lock, ARGV[i + 1], '1')
  redis.call('pexpire', lock, lease)
end
return nil
