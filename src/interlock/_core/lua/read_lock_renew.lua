-- read_lock_renew: keep many locks for another lease, each only if its holder still reads.
--
-- The first entry of the holder is renewed. A release removes it last, so a reader with it lives.
-- A key of another type is a lost lock: hence pcall.
--
-- KEYS[1]     lock     hash {mode: read or write, reader: depth, writer: depth}
-- KEYS[2..n]  entry    string "1", the holder's first entry; then the next lock and so on
-- ARGV[1]     lease    integer > 0, milliseconds
-- ARGV[2..n]  holder   string, "<client id>:<number>", one for each lock
--
-- Returns  a list: 1 for a lock that is kept, 0 for one that is lost
-- Source   ReadLockTask (the watchdog), Redisson 4.7.0, for the first entry; never shortens a TTL
-- Wire     the first entries and the TTLs; this code is our own
local lock, entry, keys, lease, holders = KEYS[1], KEYS[2], KEYS, tonumber(ARGV[1]), ARGV

local kept = {}
for i = 1, #keys / 2 do
  lock, entry = keys[2 * i - 1], keys[2 * i]
  local holder = holders[i + 1]
  local depth = redis.pcall('hget', lock, holder)
  kept[i] = type(depth) == 'string' and tonumber(depth) and 1 or 0
  if kept[i] == 1 then
    redis.call('hdel', lock, '')
    if redis.call('pttl', entry) < lease then
      redis.call('set', entry, '1', 'px', lease)
    end
    if redis.call('pttl', lock) < lease then
      redis.call('pexpire', lock, lease)
    end
  end
end
return kept
