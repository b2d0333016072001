-- semaphore_total: tell how many permits are free, and how many there are.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  total      string, "<all permits> <epoch>", as far as our clients have set it;
--                     may be left out
--
-- Returns  {free (nil: no semaphore), all (nil: not known)}
-- Source   our own
-- Wire     nothing is written
local semaphore, total = KEYS[1], KEYS[2]

local free = redis.call('get', semaphore)
local value = total and redis.call('get', total)
local known = value and string.match(value, '^(-?%d+) ?%d*$')
if not tonumber(free or 0) or (value and not known) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
return {free and tonumber(free) or false, known and tonumber(known) or false}
