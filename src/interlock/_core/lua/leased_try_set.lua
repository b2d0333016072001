-- leased_try_set: make a missing leased semaphore, and tell the waiters; once, however often the
-- call arrives.
--
-- The server may have evicted the number alone. Then permits that are held count.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, "<number> <answer>": the last call with this key
-- KEYS[3]  permits    zset {id, 16 bytes: its end, epoch milliseconds by the server's clock}
-- ARGV[1]  number     integer of 12 digits, tells this call from those before it
-- ARGV[2]  all        integer >= 0, how many permits there are then, free and held
-- ARGV[3]  ttl        integer > 0, milliseconds that the request is kept
-- ARGV[4]  idle       as for leased_query
-- ARGV[5]  channel    string, where Java listens
--
-- Returns  1 when made, 0 when there was one
-- Source   RPermitExpirableSemaphore.trySetPermits, Redisson 4.7.0
-- Wire     the number, and the sum of free and held ones on the channel; this code is our own
local semaphore, request, permits = KEYS[1], KEYS[2], KEYS[3]
local number, all, ttl, idle, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- include: once

local made = redis.call('set', semaphore, all, 'nx') and '1' or '0'
redis.call('set', request, number .. ' ' .. made, 'px', ttl)
local held = made == '1' and redis.call('zcard', permits) or 0
if held > 0 then
  redis.call('decrby', semaphore, held)
end

-- include: idle_leased

if made == '1' then
  redis.call(PUBLISH, channel, all)
end
return tonumber(made)
