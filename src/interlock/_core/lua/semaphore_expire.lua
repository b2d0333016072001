-- semaphore_expire: let a semaphore, or the count of a latch, end so long after now.
--
-- KEYS[1]  semaphore  string, the number of free permits, or the count of a latch
-- KEYS[2]  rest       its other key, of any type, which ends with it; may be left out
-- ARGV[1]  idle       integer > 0, milliseconds
--
-- Returns  1; 0 when there is none
-- Source   RExpirable.expire, Redisson 4.7.0
-- Wire     the TTL of the keys
local semaphore, rest, idle = KEYS[1], KEYS[2], ARGV[1]

if not tonumber(redis.call('get', semaphore) or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
local found = redis.call('pexpire', semaphore, idle)
if rest and redis.call('pexpire', rest, idle) == 1 then
  found = 1
end
return found
