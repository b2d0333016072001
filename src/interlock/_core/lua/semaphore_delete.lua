-- semaphore_delete: remove a semaphore of either kind, with all permits.
--
-- A call counts once, however often it arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, the latch of this call: the answer to it
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; if there is none, a
--                     key that never exists
-- KEYS[4]  rest       of a leased one, zset {id, 16 raw bytes: the end of its lease}; else string,
--                     the number of all permits; may be left out
-- ARGV[1]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[2]  leased     1: a leased one; else 0
--
-- Returns  1 when there was one, else 0
-- Source   RSemaphore.delete and RPermitExpirableSemaphore.delete, Redisson 4.7.0
-- Wire     the number and the zset; the string is ours alone, and so is this code
local semaphore, request, spent, rest = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ttl, leased = ARGV[1], ARGV[2]

local before = redis.call('get', request)
if before then
  return tonumber(before)
end
if not tonumber(redis.call('get', semaphore) or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
redis.call('del', spent)
local there = redis.call('del', semaphore)
if rest and redis.call('del', rest) == 1 and leased == '1' then
  there = 1
end
redis.call('set', request, there, 'px', ttl)
return there
