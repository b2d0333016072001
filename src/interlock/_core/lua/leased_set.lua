-- leased_set: set the sum of free and held permits, and tell the waiters; once.
--
-- KEYS[1]  semaphore  string, the number of free permits; negative while too many are held
-- KEYS[2]  request    string, "<number> <answer>": the last call with this key
-- KEYS[3]  permits    zset {id, 16 bytes: its end, epoch milliseconds by the server's clock}
-- ARGV[1]  number     integer of 12 digits, tells this call from those before it
-- ARGV[2]  all        integer >= 0, the new sum
-- ARGV[3]  ttl        integer > 0, milliseconds that the request is kept
-- ARGV[4]  idle       as for leased_query
-- ARGV[5]  channel    string, where Java listens
--
-- Returns  1
-- Source   RPermitExpirableSemaphore.setPermits, Redisson 4.7.0
-- Wire     the number, and the new sum on the channel; this code is our own
local semaphore, request, permits = KEYS[1], KEYS[2], KEYS[3]
local number, all, ttl, idle, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- include: once

local free = redis.call('get', semaphore)
if not tonumber(free or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
local missing = all - (free or 0) - redis.call('zcard', permits)
redis.call('incrby', semaphore, missing)
redis.call('set', request, number .. ' 1', 'px', ttl)

-- include: idle_leased

if missing ~= 0 or not free then
  redis.call(PUBLISH, channel, all)
end
return 1
