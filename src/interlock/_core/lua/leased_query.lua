-- leased_query: take expired permits back, then tell how many are free and held; a missing number
-- that the code names is set.
--
-- KEYS     semaphore, permits
-- ARGV     named, idle, channel
-- Returns  {free, held}
-- Source   RPermitExpirableSemaphore.availablePermits, acquiredPermits and getPermits
-- Wire     the number and the zset; on the channel the new number when expired permits came back,
--          and the sum when the number was set

local free = redis.call('get', semaphore)
-- include: number(free, a number of permits), now
local expired = redis.call('zremrangebyscore', permits, 0, now)
local held = redis.call('zcard', permits)
if not free and named ~= '' then
  free = redis.call('incrby', semaphore, named - held)
  redis.pcall(PUBLISH, channel, named)
elseif expired > 0 then
  free = redis.call('incrby', semaphore, expired)
  if free > 0 then
    redis.pcall(PUBLISH, channel, free)
  end
end

-- include: idle(semaphore, permits)

return {tonumber(free or 0), held}
