-- group_lock_force_release: free every field, even if another owner holds it, and tell the waiters.
--
-- KEYS[1]     group    hash {field: holder, "<field>:<holder>:expire_time": epoch milliseconds,
--                      "<field>:<holder>:lock_count": depth}
-- ARGV[1]     channel  string, where waiters listen
-- ARGV[2..n]  field    string, the field that stands for one value
--
-- Returns  1 when one of them was locked, else 0
-- Source   RedissonFasterMultiLock.forceUnlockAsync, Redisson 4.7.0
-- Wire     the hash, and "0" on the channel; this code is our own
local group, channel, fields = KEYS[1], ARGV[1], ARGV
local FIRST = 2

local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local locked = 0
for i = FIRST, #fields do
  local owner = redis.call('hget', group, fields[i])
  if owner then
    local theirs = fields[i] .. ':' .. owner
    if tonumber(redis.call('hget', group, theirs .. ':expire_time') or 0) > now then
      locked = 1
    end
    redis.call('hdel', group, fields[i], theirs .. ':expire_time', theirs .. ':lock_count')
  end
end
if locked == 1 then
  redis.call(PUBLISH, channel, '0')
end
return locked
