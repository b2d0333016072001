-- group_renew: renew the fields for each holder that still holds all of them.
--
-- A key of another type is a lost lock: hence pcall. A time that is not a number counts as 0.
--
-- KEYS     group
-- ARGV     #lease, #count, words...
-- Returns  a list: 1 for a holder whose fields are kept, 0 for one that has lost one
-- Source   FastMultilockTask (the watchdog), Redisson 4.7.0; never shortens anything
-- Wire     the times of the fields and the TTL
local FIRST = 3

local clock = redis.call('time')
local expires = clock[1] * 1000 + math.floor(clock[2] / 1000) + lease

local kept = {}
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
    if redis.call('pttl', group) < lease then
      redis.call('pexpire', group, lease)
    end
  end
end
return kept
