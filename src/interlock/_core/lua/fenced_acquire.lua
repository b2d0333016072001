-- fenced_acquire: reach *depth* on a free or own lock and draw a token when it was free.
--
-- A re-entry, or a copy, keeps the token of the first entry: nobody else draws one meanwhile.
--
-- KEYS     lock, counter
-- ARGV     lease, holder, depth, #floor, #unit
-- Returns  {token, source} when held, where source tells what the token follows: 'epoch', 'clock'
--          (microseconds; the node tells no epoch) or 'counter'; else as lock_acquire
-- Source   RFencedLock.tryLockAndGetToken, which draws a new token for each re-entry too
-- Wire     the hash, its TTL, and the counter

-- include: draw

local free = depth == '1' and redis.call('exists', lock) == 0
if not free and redis.call('hexists', lock, holder) == 0 then
  return redis.call('pttl', lock)
end
local token, source = draw(free, depth == '1')
redis.call('hset', lock, holder, depth)
if free or redis.call('pttl', lock) < tonumber(lease) then
  redis.call('pexpire', lock, lease)
end
return {token, source}
