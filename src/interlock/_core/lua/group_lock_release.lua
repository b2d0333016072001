-- group_lock_release: go down to *depth* on every field; at 0 free them all and tell the waiters.
--
-- A release to the former depth undoes an acquire that was interrupted at any point. Neither the
-- TTL nor the time of a field changes: an inner release does not change the outer hold's lease.
--
-- A server that is out of memory refuses HSET, but only as a script's first write. So an HDEL of a
-- field that never exists comes first.
--
-- KEYS[1]     group    hash {field: holder, "<field>:<holder>:expire_time": epoch milliseconds,
--                      "<field>:<holder>:lock_count": depth}
-- ARGV[1]     holder   string, "<client id>:<number>"
-- ARGV[2]     depth    integer >= 0, the depth to reach: sending it twice changes nothing
-- ARGV[3]     channel  string, where waiters listen
-- ARGV[4..n]  field    string, the field that stands for one value
--
-- Returns  1 when done, nil when this holder does not hold all of them (those that it held are at
--          *depth* then)
-- Source   RedissonFasterMultiLock.unlockInnerAsync, Redisson 4.7.0
-- Wire     the hash, and "0" on the channel when fields are freed; this code is our own
local group, holder, depth = KEYS[1], ARGV[1], tonumber(ARGV[2])
local channel, fields = ARGV[3], ARGV
local FIRST = 4

local held, all_held = {}, true
for i = FIRST, #fields do
  if redis.call('hget', group, fields[i]) == holder then
    held[#held + 1] = fields[i]
  else
    all_held = false
  end
end
if #held > 0 then
  redis.call('hdel', group, '')
end
for _, field in ipairs(held) do
  local mine = field .. ':' .. holder
  if depth > 0 then
    redis.call('hset', group, mine .. ':lock_count', depth)
  else
    redis.call('hdel', group, field, mine .. ':expire_time', mine .. ':lock_count')
  end
end
if depth == 0 and #held > 0 then
  redis.call(PUBLISH, channel, '0')
end
return all_held and 1 or nil
