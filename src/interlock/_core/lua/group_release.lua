-- group_release: go down to *depth* on every field; at 0 free them all and tell the waiters.
--
-- Neither the TTL nor the time of a field changes: an inner release does not change the outer hold's
-- lease. A server that is out of memory refuses HSET, but only as a script's first write. So an HDEL
-- of a field that never exists comes first.
--
-- KEYS[1]     group    hash {field: holder, "<field>:<holder>:expire_time": epoch milliseconds,
--                      "<field>:<holder>:lock_count": depth}
-- ARGV[1]     holder   string, "<client>:<number>"
-- ARGV[2]     depth    integer >= 0, the depth to reach
-- ARGV[3]     channel  string, where waiters listen
-- ARGV[4..n]  field    string, the field that stands for one value
--
-- Returns  1 when it held all of them; 0 when it held some of them; nil when none (what it held is at
--          *depth* then)
-- Source   RedissonFasterMultiLock.unlockInnerAsync and forceUnlockAsync, Redisson 4.7.0
-- Wire     the hash, and "0" on the channel when fields are freed; this code is our own
local group, holder, depth = KEYS[1], ARGV[1], ARGV[2]
local channel, fields = ARGV[3], ARGV
local FIRST = 4

redis.call('hdel', group, '')
local held = 0
for i = FIRST, #fields do
  if redis.call('hget', group, fields[i]) == holder then
    local mine = fields[i] .. ':' .. holder
    if depth ~= '0' then
      redis.call('hset', group, mine .. ':lock_count', depth)
    else
      redis.call('hdel', group, fields[i], mine .. ':expire_time', mine .. ':lock_count')
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
return held == #fields - FIRST + 1 and 1 or 0
