-- group_lock_renew: keep every field for another lease, if this holder still holds all of them.
--
-- KEYS[1]     group   hash {field: holder, "<field>:<holder>:expire_time": epoch milliseconds, "<field>:<holder>:lock_count": depth}
-- ARGV[1]     lease   integer > 0, milliseconds
-- ARGV[2]     holder  string, "<client id>:<number>"
-- ARGV[3..n]  field   string, what stands for one value
--
-- Returns  a list of one: 1 when they are kept, 0 when one is lost
-- Source   FastMultilockTask (the watchdog), Redisson 4.7.0; never shortens anything
-- Wire     the times of the fields and the TTL; this text is our own
local group, lease, holder, fields = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV
local FIRST = 3

local clock = redis.call('time')
local expires = clock[1] * 1000 + math.floor(clock[2] / 1000) + lease

for i = FIRST, #fields do
  if redis.pcall('hget', group, fields[i]) ~= holder then
    return {0}
  end
end
for i = FIRST, #fields do
  local name = fields[i] .. ':' .. holder .. ':expire_time'
  if tonumber(redis.call('hget', group, name) or 0) < expires then
    redis.call('hset', group, name, string.format('%.0f', expires))
  end
end
if redis.call('pttl', group) < lease then
  redis.call('pexpire', group, lease)
end
return {1}
