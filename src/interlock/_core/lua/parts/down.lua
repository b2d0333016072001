-- down (part): whether it is *held*; end here if that goes down to a *depth* above 0.
local held = redis.call('hexists', lock, holder) == 1
if held and depth ~= '0' then
  redis.call('hdel', lock, '') -- a full server refuses HSET, but only as the first write
  redis.call('hset', lock, holder, depth)
  return 1
end
