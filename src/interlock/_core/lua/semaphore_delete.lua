-- semaphore_delete: remove a semaphore with all permits; once, however often the call arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, "<number> <answer>": the last call with this key
-- KEYS[3]  total      string, as for semaphore_acquire; may be left out
-- ARGV[1]  number     integer of 12 digits, tells this call from those before it
-- ARGV[2]  ttl        integer > 0, milliseconds that the request is kept
--
-- Returns  1 when there was one, else 0
-- Source   RSemaphore.delete, Redisson 4.7.0
-- Wire     the number; the total is ours alone, and so is this code
local semaphore, request, total, number, ttl = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]

-- include: once

if not tonumber(redis.call('get', semaphore) or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
local there = redis.call('del', semaphore)
if total then
  redis.call('del', total)
end
redis.call('set', request, number .. ' ' .. there, 'px', ttl)
return there
