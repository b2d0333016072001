-- group_release: go down to *depth* on every field; at 0 free them all and tell the waiters.
--
-- Neither the TTL nor the time of a field changes: an inner release does not change the outer hold's
-- lease. Without fields it is about all that the holder has.
--
-- KEYS     group
-- ARGV     holder, depth, channel, how, field...
-- Returns  1 when it held all of them, or some if it is released by force; 0 when some; nil when none
--          (what it held is at *depth* then)
-- Source   RedissonFasterMultiLock.unlockInnerAsync and forceUnlockAsync
-- Wire     the hash, and "0" on the channel when fields are freed
local FIRST = 5

redis.call('hdel', group, '') -- a full server refuses HSET, but only as the first write
local fields, held = {}, 0
for i = FIRST, #ARGV do
  fields[#fields + 1] = ARGV[i]
end
if not fields[1] then
  local all = redis.call('hgetall', group)
  for i = 1, #all, 2 do
    if all[i + 1] == holder then
      fields[#fields + 1] = all[i]
    end
  end
end
for _, field in ipairs(fields) do
  if redis.call('hget', group, field) == holder then
    local mine = field .. ':' .. holder
    if depth ~= '0' then
      redis.call('hset', group, mine .. ':lock_count', depth)
    else
      redis.call('hdel', group, field, mine .. ':expire_time', mine .. ':lock_count')
    end
    held = held + 1
  end
end
if held == 0 then
  return nil
end
if depth == '0' then
  redis.pcall(PUBLISH, channel, '0')
end
return (how == '-' or held == #fields) and 1 or 0
