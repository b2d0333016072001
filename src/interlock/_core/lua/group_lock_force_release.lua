-- group_lock_force_release: free every field, even if another owner holds it, and tell the waiters.
--
-- A copy that comes after another one was executed does nothing, so it breaks no later hold.
--
-- KEYS[1]     group    hash {field: holder, "<field>:<holder>:expire_time": epoch milliseconds,
--                      "<field>:<holder>:lock_count": depth}
-- KEYS[2]     request  string, the answer to this call, for copies of it; may be left out
-- ARGV[1]     channel  string, where waiters listen
-- ARGV[2..n]  field    string, the field that stands for one value; at last, with the request, the
--                      milliseconds that it is remembered
--
-- Returns  1 when one of them was locked, else 0
-- Source   RedissonFasterMultiLock.forceUnlockAsync, Redisson 4.7.0
-- Wire     the hash, the request, and "0" on the channel; this code is our own
local group, request, channel, fields = KEYS[1], KEYS[2], ARGV[1], ARGV
local FIRST = 2
local ttl = request and table.remove(fields)

local before = request and redis.pcall('get', request)
if type(before) == 'string' then
  return tonumber(before)
end
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
if request then
  redis.pcall('set', request, locked, 'px', ttl)
end
if locked == 1 then
  redis.call(PUBLISH, channel, '0')
end
return locked
