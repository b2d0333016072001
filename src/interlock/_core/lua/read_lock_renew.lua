-- read_lock_renew: keep many locks for another lease, each only if its holder still reads.
--
-- Only the holder's own entries are renewed, as many as the holder's depth. The script makes their
-- names from the lock's name. So they are in the same slot of a cluster. A key of another type is a
-- lost lock: hence pcall.
--
-- KEYS[1..n]  lock     hash {mode: read or write, reader: depth, writer: depth}
-- ARGV[1]     lease    integer > 0, milliseconds
-- ARGV[2..n]  holder   string, "<client id>:<number>", one for each lock
--
-- Returns  a list: 1 for a lock that is kept, 0 for one that is lost
-- Source   ReadLockTask (the watchdog), Redisson 4.7.0; never shortens a TTL
-- Wire     the entries and the TTLs; this code is our own
local lock, locks, lease, holders = KEYS[1], KEYS, tonumber(ARGV[1]), ARGV

local kept = {}
for i, each in ipairs(locks) do
  lock = each
  local holder = holders[i + 1]
  local depth = redis.pcall('hget', lock, holder)
  depth = type(depth) == 'string' and tonumber(depth)
  kept[i] = depth and 1 or 0
  if depth then
    redis.call('hdel', lock, '')
    local tagged = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
    -- Bounded: a huge depth, written by another program, must not stall the server.
    for n = 1, math.min(depth, 1000) do
      local entry = tagged .. ':' .. holder .. ':rwlock_timeout:' .. n
      if redis.call('pttl', entry) < lease then
        redis.call('set', entry, '1', 'px', lease)
      end
    end
    if redis.call('pttl', lock) < lease then
      redis.call('pexpire', lock, lease)
    end
  end
end
return kept
