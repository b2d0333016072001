-- limited_renew: keep permits of limits for another lease, those of each holder if it has all.
--
-- KEYS     permits...
-- ARGV     #lease, holder...
--
-- Returns  a list: 1 for a holder that keeps them, 0 for one that has lost them
-- Source   our own; never shortens a lease
local time = redis.call('time')
local KEEP = 10000 -- milliseconds that it outlasts them, as in limited
local ms, kept = time[1] * 1000 + math.floor(time[2] / 1000), {}
for i = 2, #ARGV do
  permits = KEYS[i - 1]
  local id, n = string.match(ARGV[i], '^[^:]*:%d+'), tonumber(string.match(ARGV[i], '%*(%d+)') or 1)
  kept[i - 1] = 1
  for k = 0, n - 1 do
    if tonumber(redis.call('zscore', permits, id .. '.' .. k) or 0) <= ms then
      kept[i - 1] = 0
    end
  end
  if kept[i - 1] == 1 then
    redis.call('zrem', permits, '') -- a full server refuses ZADD, but only as the first write
    for k = 0, n - 1 do
      if tonumber(redis.call('zscore', permits, id .. '.' .. k)) < ms + lease then
        redis.call('zadd', permits, ms + lease, id .. '.' .. k)
      end
    end
    if redis.call('pttl', permits) < lease + KEEP then
      redis.call('pexpire', permits, lease + KEEP)
    end
  end
end
return kept
