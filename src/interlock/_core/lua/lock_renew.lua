-- lock_renew: keep many locks for another lease, each only if its holder still holds it.
--
-- KEYS     lock...
-- ARGV     lease, holder...
-- Returns  a list: 1 for a lock that is kept, 0 for one that is lost
-- Source   LockTask (the watchdog)
-- Wire     the TTL

local kept = {}
for i, each in ipairs(KEYS) do
  lock = each
  kept[i] = redis.pcall('hexists', lock, ARGV[i + 1]) == 1 and 1 or 0
  if kept[i] == 1 and redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
  end
end
return kept
