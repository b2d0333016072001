-- group_release: go down to *depth* on every field; at 0 free them all and tell the waiters.
--
-- Neither the TTL nor the time of a field changes: an inner release does not change the outer hold's
-- lease. A server that is out of memory refuses HSET, but only as a script's first write. So an HDEL
-- of a field that never exists comes first.
--
-- KEYS     group
-- ARGV     holder, depth, channel, field...
--
-- Returns  1 when it held all of them; 0 when it held some of them; nil when none (what it held is at
--          *depth* then)
-- Source   RedissonFasterMultiLock.unlockInnerAsync and forceUnlockAsync, Redisson 4.7.0
-- Wire     the hash, and "0" on the channel when ARGV are freed
local FIRST = 4

redis.call('hdel', group, '')
local held = 0
for i = FIRST, #ARGV do
  if redis.call('hget', group, ARGV[i]) == holder then
    local mine = ARGV[i] .. ':' .. holder
    if depth ~= '0' then
      redis.call('hset', group, mine .. ':lock_count', depth)
    else
      redis.call('hdel', group, ARGV[i], mine .. ':expire_time', mine .. ':lock_count')
    end
    held = held + 1
  end
end
if held == 0 then
  return nil
end
if depth == '0' then
  redis.call(PUBLISH, channel, '0')
end
return held == #ARGV - FIRST + 1 and 1 or 0
