-- group_query: tell who holds some of the fields, how deep, and for how long.
--
-- KEYS     group
-- ARGV     field...
-- Returns  {milliseconds until the last of them ends (-2: none is locked), holder, depth, holder,
--          depth, ...}; the depth is 0 for a holder that does not hold all of them
-- Source   RedissonFasterMultiLock.isLocked and getHoldCount

-- include: now

local left, order, held, depths = -2, {}, {}, {}
for i = 1, #ARGV do
  local owner = redis.call('hget', group, ARGV[i])
  local theirs = owner and ARGV[i] .. ':' .. owner
  local rest = owner
    and tonumber(redis.call('hget', group, theirs .. ':expire_time') or 0) - now or 0
  if rest > 0 then
    left = math.max(left, rest)
    if not held[owner] then
      order[#order + 1], held[owner] = owner, 0
    end
    local depth = tonumber(redis.call('hget', group, theirs .. ':lock_count') or 0)
    held[owner], depths[owner] = held[owner] + 1, math.min(depths[owner] or depth, depth)
  end
end
local answer = {left}
for _, owner in ipairs(order) do
  answer[#answer + 1] = owner
  answer[#answer + 1] = string.format('%.0f', held[owner] == #ARGV and depths[owner] or 0)
end
return answer
