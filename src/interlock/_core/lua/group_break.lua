-- group_break: free all fields of one holder, and tell the waiters.
--
-- KEYS     group
-- ARGV     holder, channel
--
-- Returns  1 when the holder held a field, else 0
-- Source   RedissonFasterMultiLock.unlockInnerAsync, Redisson 4.7.0
-- Wire     the hash, and "0" on the channel

local held, fields = 0, redis.call('hgetall', group)
for i = 1, #fields, 2 do
  if fields[i + 1] == holder then
    local theirs = fields[i] .. ':' .. holder
    redis.call('hdel', group, fields[i], theirs .. ':expire_time', theirs .. ':lock_count')
    held = 1
  end
end
if held == 1 then
  redis.call(PUBLISH, channel, '0')
end
return held
