-- semaphore_expire: let a semaphore, or the count of a latch, end by itself.
--
-- KEYS[1]  semaphore  string, the number of free permits, or the count of a latch
-- KEYS[2]  rest       its other key, of any type, which ends with it; may be left out
-- ARGV[1]  ttl        integer > 0, milliseconds
-- ARGV[2]  idle       1: it ends so long after now; 0: it keeps an end that it has
--
-- Returns  the milliseconds until it ends; -2 when there is none
-- Source   RExpirable.expire and expireIfNotSet, Redisson 4.7.0
-- Wire     the TTL of the keys
local semaphore, rest, ttl, idle = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

if not tonumber(redis.call('get', semaphore) or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
local ends = redis.call('pttl', semaphore)
if ends == -1 or (ends >= 0 and idle == '1') then
  redis.call('pexpire', semaphore, ttl)
  ends = tonumber(ttl)
end
local other = rest and redis.call('pttl', rest) or -2
if other == -1 or (other >= 0 and idle == '1') then
  other = ends >= 0 and ends or tonumber(ttl)
  redis.call('pexpire', rest, other)
end
return math.max(ends, other)
