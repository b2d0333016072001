-- Add permits to the number once, and note in the latch what to take back; `before` and `free` are
-- the numbers before and after. Do nothing if they are `old`: taken of an earlier number.
local done = redis.call('get', request)
if done then
  return done == '0' and 0 or 1
end
local before = redis.call('get', semaphore)
if not tonumber(before or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
-- When memory is full, the server lets a DEL through, and then all writes that follow. Permits
-- must come back even then.
redis.call('del', spent)
if old or (not before and create == '0') then
  -- A copy must not add permits to a semaphore that is created later.
  redis.call('set', request, 0, 'px', ttl)
  return 0
end
local free = redis.call('incrby', semaphore, permits)
-- Kept as a string, for the same reason as in semaphore_acquire.
local less = string.sub(permits, 1, 1) == '-'
redis.call('set', request, less and string.sub(permits, 2) or '-' .. permits, 'px', ttl)
