-- permits_ask (part): take permits, or find out that they are held already; else stand in the queue,
-- if that is what the holder wants.
local member = holder .. deaf
local function have()
  take(holder, lease)
  if queue then
    redis.call('zrem', queue, holder, holder .. '?')
  end
  return stands ~= '' and {'', ''} or nil
end
expire()
if redis.call('zscore', permits, read(holder)[1]) then
  redis.call('zrem', permits, '') -- a full server refuses ZADD to one that was let in, else
  return have()
end
local score, one = queue and stands ~= '' and redis.call('zscore', queue, member), nil
if score then
  local _, _, mine, front = advance('', '0', member)
  if mine or nobody and fits(holder) then
    return have()
  end
  one = front
else
  one = queue and first()
  if not one and fits(holder) then
    return have()
  end
end
local PERMANENT = 922337203685477 -- the end of a permit without a lease
local ends = tonumber(redis.call('zrange', permits, '0', '0', 'withscores')[2] or PERMANENT)
local left = one and fits(one) and -2 or ends < PERMANENT and ends - ms or -1
if stands == '' then
  return left
end

local missed -- its client looks for whoever was

-- include: queued, join, refusal

return answer
