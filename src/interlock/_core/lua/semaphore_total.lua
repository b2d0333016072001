-- semaphore_total: tell how many permits are free, and how many there are.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  total      string, the number of all permits, as far as our clients have set it; may be
--                     left out
--
-- Returns  {free (nil: no semaphore), all (nil: not known)}
-- Source   our own
-- Wire     nothing is written
local semaphore, total = KEYS[1], KEYS[2]

local free = redis.call('get', semaphore)
local known = total and redis.call('get', total)
if not tonumber(free or 0) or not tonumber(known or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
return {free and tonumber(free) or false, known and tonumber(known) or false}
