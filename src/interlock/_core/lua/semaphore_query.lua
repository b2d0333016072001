-- semaphore_query: tell how many permits are free.
--
-- KEYS[1]  semaphore  string, the number of free permits
--
-- Returns  the number, nil when there is no such semaphore
-- Source   RSemaphore.availablePermits, Redisson 4.7.0
-- Wire     nothing is written; this code is our own
local semaphore = KEYS[1]

local value = redis.call('get', semaphore)
if not value then
  return nil
end
local free = tonumber(value)
if not free then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
return free
