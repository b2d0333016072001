-- semaphore_query: tell how many permits are free; a missing semaphore with a named number is made.
--
-- KEYS     semaphore, total?
-- ARGV     named, idle, channel
--
-- Returns  {-1, the free ones (nil: no semaphore), all (nil: not known)}, as semaphore_acquire
-- Source   RSemaphore.availablePermits, Redisson 4.7.0
-- Wire     as semaphore_acquire

local free = redis.call('get', semaphore)
if not tonumber(free or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
if not free and named ~= '' then
  redis.call('set', semaphore, named)
  if total then
    redis.call('set', total, named)
  end
  redis.call(PUBLISH, channel, named)
  free = named
end

-- include: idle(semaphore, total)

local all = total and tonumber(redis.call('get', total) or '')
return {-1, free and tonumber(free) or false, all or false}
