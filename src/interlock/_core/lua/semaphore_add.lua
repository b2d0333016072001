-- semaphore_add: add permits for good, or take them away, and tell the waiters.
--
-- A call counts once, however often it arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, the latch of this call: the permits it took, negative if it gave
--                     some, "0" if it did nothing
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; if there is none, a
--                     key that never exists
-- KEYS[4]  total      string, the number of all permits, as far as our clients have set it; may be
--                     left out
-- ARGV[1]  permits    integer, not 0
-- ARGV[2]  create     1: create a missing semaphore; 0: do nothing if it is missing
-- ARGV[3]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[4]  channel    string, where waiters listen
--
-- Returns  1 when done, 0 when it is missing and not created
-- Source   RSemaphore.addPermits, Redisson 4.7.0
-- Wire     the number, whose TTL stays, and its new value on the channel unless it is negative:
--          Java's listener fails on that; the total is ours alone
local semaphore, request, spent, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local permits, create, ttl, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local done = redis.call('get', request)
if done then
  return done == '0' and 0 or 1
end
local before = redis.call('get', semaphore)
if not tonumber(before or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
-- When memory is full, the server lets a DEL through, and then all writes that follow.
redis.call('del', spent)
if not before and create == '0' then
  -- A copy must not add permits to a semaphore that is created later.
  redis.call('set', request, 0, 'px', ttl)
  return 0
end
local free = redis.call('incrby', semaphore, permits)
if total and not before then
  redis.call('set', total, permits)
elseif total and redis.call('exists', total) == 1 then
  redis.call('incrby', total, permits)
end
local less = string.sub(permits, 1, 1) == '-'
redis.call('set', request, less and string.sub(permits, 2) or '-' .. permits, 'px', ttl)
if free >= 0 then
  redis.call(PUBLISH, channel, free)
end
return 1
