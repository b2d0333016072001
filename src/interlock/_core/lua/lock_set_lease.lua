-- lock_set_lease: set a lock's TTL to exactly *lease*, if its holder still holds it.
--
-- The TTL may become shorter.
--
-- KEYS[1]  lock    hash {holder: depth}; its TTL is the lease
-- ARGV[1]  lease   integer > 0, milliseconds
-- ARGV[2]  holder  string, "<client id>:<number>"
--
-- Returns  1 when done; 0 when this holder does not hold the lock (nothing changed)
-- Source   redis-py's Lock.extend with replace_ttl: Redisson can only lengthen a lease
-- Wire     the TTL; this code is our own
local lock, lease, holder = KEYS[1], ARGV[1], ARGV[2]

-- A key of another type is a lost lock: hence pcall.
if redis.pcall('hexists', lock, holder) ~= 1 then
  return 0
end
redis.call('pexpire', lock, lease)
return 1
