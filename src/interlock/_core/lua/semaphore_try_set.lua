-- semaphore_try_set: make a missing semaphore, and tell the waiters; once, however often it arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, "<number> <answer>": the last call with this key
-- KEYS[3]  total      string, as for semaphore_acquire; may be left out
-- ARGV[1]  number     integer of 12 digits, tells this call from those before it
-- ARGV[2]  permits    integer >= 0
-- ARGV[3]  ttl        integer > 0, milliseconds that the request is kept
-- ARGV[4]  idle       as for semaphore_acquire
-- ARGV[5]  channel    string, where waiters listen
--
-- Returns  1 when made, 0 when there was one
-- Source   RSemaphore.trySetPermits, Redisson 4.7.0
-- Wire     the number, and the same on the channel; the total is ours alone, and so is this code
local semaphore, request, total = KEYS[1], KEYS[2], KEYS[3]
local number, permits, ttl, idle, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- include: once

local made = redis.call('set', semaphore, permits, 'nx') and '1' or '0'
redis.call('set', request, number .. ' ' .. made, 'px', ttl)
if made == '1' and total then
  redis.call('set', total, permits)
end

-- include: idle

if made == '1' then
  redis.call(PUBLISH, channel, permits)
end
return tonumber(made)
