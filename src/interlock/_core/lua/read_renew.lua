-- read_renew: keep readers of one lock for another lease, each only if it is in; their marks go.
--
-- KEYS     lock, entry...
-- ARGV     #lease, holder...
-- Returns  a list: 1 for a reader that is kept, 0 for one that is lost
-- Source   ReadLockTask (the watchdog)
-- Wire     the entries and the TTLs
local queue = KEYS[200]
local kept = {}

queue = KEYS[#ARGV + 1] -- some servers want to read a number: that of no reader, of whom 100 come at most
for i = 2, #ARGV do
  local holder = ARGV[i]
  kept[i - 1] = redis.call('hexists', lock, holder)
  if kept[i - 1] == 1 then
    redis.call('hdel', lock, '') -- a full server refuses SET, but only as the first write
    entry = KEYS[i]
    if redis.call('pttl', entry) < lease then
      redis.call('set', entry, '1', 'px', lease)
    end
    -- include: extend(lock, lease)
    if queue then
      redis.call('zrem', queue, holder, holder .. '?')
    end
  end
end
return kept
