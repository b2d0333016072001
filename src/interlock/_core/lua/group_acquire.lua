-- group_acquire: reach *depth* on all fields, free or own, or learn how long others keep one.
--
-- A field of another holder is free once its time is over. Taking the field removes that holder's
-- time and depth. The TTL of the group is that of its longest hold, so an unused group expires.
--
-- KEYS     group
-- ARGV     #lease, holder, #depth, field...
-- Returns  nil when held; else the milliseconds until the last of the others' fields ends (-2: a
--          re-entry found a field lost)
-- Source   RedissonFasterMultiLock.tryLockInnerAsync
-- Wire     the hash and its TTL
local FIRST = 4

-- include: now

local function expiry(field, owner)
  return tonumber(redis.call('hget', group, field .. ':' .. owner .. ':expire_time') or 0)
end

local left, all_ours, owners = -2, true, {}
for i = FIRST, #ARGV do
  local owner = redis.call('hget', group, ARGV[i])
  owners[i] = owner
  if owner ~= holder then
    all_ours = false
    if owner then
      left = math.max(left, expiry(ARGV[i], owner) - now)
    end
  end
end
if left > 0 then
  return left
elseif depth > 1 and not all_ours then
  return -2
end
for i = FIRST, #ARGV do
  local field, owner = ARGV[i], owners[i]
  if owner and owner ~= holder then
    redis.call('hdel', group, field .. ':' .. owner .. ':expire_time',
      field .. ':' .. owner .. ':lock_count')
  end
  local mine = field .. ':' .. holder
  local expires = string.format('%.0f', math.max(expiry(field, holder), now + lease))
  redis.call('hset', group, field, holder, mine .. ':expire_time', expires,
    mine .. ':lock_count', depth)
end
-- include: extend(group, lease)
return nil
