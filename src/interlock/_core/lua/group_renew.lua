-- group_renew: renew the fields for each holder that still holds all of them.
--
-- A time that is not a number counts as 0.
--
-- KEYS     group
-- ARGV     #lease, #count, words...
-- Returns  a list: 1 for a holder whose fields are kept, 0 for one that has lost one
-- Source   FastMultilockTask (the watchdog)
-- Wire     the times of the fields and the TTL
local FIRST = 3

-- include: now
local expires, kept = now + lease, {}
for i = 1, count do
  local holder = ARGV[FIRST + i - 1]
  kept[i] = 1
  for j = FIRST + count, #ARGV do
    if redis.pcall('hget', group, ARGV[j]) ~= holder then
      kept[i] = 0
    end
  end
  if kept[i] == 1 then
    redis.call('hdel', group, '') -- a full server refuses HSET, but only as the first write
    for j = FIRST + count, #ARGV do
      local name = ARGV[j] .. ':' .. holder .. ':expire_time'
      if (tonumber(redis.call('hget', group, name) or 0) or 0) < expires then
        redis.call('hset', group, name, string.format('%.0f', expires))
      end
    end
    -- include: extend(group, lease)
  end
end
return kept
