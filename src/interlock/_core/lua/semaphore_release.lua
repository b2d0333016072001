-- semaphore_release: give permits back, or add some, and tell the waiters; once for each call.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, "<number> <answer>": the last call with this key
-- KEYS[3]  total      string, as for semaphore_acquire; may be left out
-- ARGV[1]  number     integer of 12 digits, tells this call from those before it
-- ARGV[2]  permits    integer, not 0; below 0 only to add
-- ARGV[3]  ttl        integer > 0, milliseconds that the request is kept
-- ARGV[4]  named      as for semaphore_acquire
-- ARGV[5]  idle       as for semaphore_acquire
-- ARGV[6]  channel    string, where waiters listen
-- ARGV[7]  how        1: make a missing semaphore; 0: leave it missing, unless its number is named;
--                     "new": as 1, from one who has taken none; "add": there are more from now on
--
-- Returns  1 when done, 0 when there is no such semaphore
-- Source   RSemaphore.release, releaseIfExists and addPermits, Redisson 4.7.0
-- Wire     the number, and its new value on the channel unless it is negative: Java's listener
--          fails on that; this code is our own
local semaphore, request, total = KEYS[1], KEYS[2], KEYS[3]
local number, permits, ttl, named = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local idle, channel, how = ARGV[5], ARGV[6], ARGV[7]

-- include: once

local all = how == 'add' and total and redis.call('get', total)
if all and not tonumber(all) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end

-- include: free_permits

if not free and how == '0' then
  redis.call('set', request, number .. ' 0', 'px', ttl)
  return 0
end
-- What was taken of a lost number is among those that it has now.
if not made or named == '0' or how == 'add' or how == 'new' then
  if how == 'add' and total and (all or not free or made) then
    redis.call('incrby', total, permits)
  end
  free = redis.call('incrby', semaphore, permits)
end
redis.call('set', request, number .. ' 1', 'px', ttl)

-- include: idle

if tonumber(free) >= 0 then
  redis.call(PUBLISH, channel, free)
end
return 1
