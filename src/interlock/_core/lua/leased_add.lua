-- leased_add: add or remove permits; once, however often the call arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, "<number> <answer>": the last call with this key
-- KEYS[3]  permits    zset {id, 16 bytes: its end, epoch milliseconds by the server's clock}
-- ARGV[1]  number     integer of 12 digits, tells this call from those before it
-- ARGV[2]  more       integer, not 0
-- ARGV[3]  ttl        integer > 0, milliseconds that the request is kept
-- ARGV[4]  idle       as for leased_query
-- ARGV[5]  channel    string, where Java listens
--
-- Returns  1
-- Source   RPermitExpirableSemaphore.addPermits, Redisson 4.7.0
-- Wire     the number; on the channel how many were added; this code is our own
local semaphore, request, permits = KEYS[1], KEYS[2], KEYS[3]
local number, more, ttl, idle, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- include: once

if not tonumber(redis.call('get', semaphore) or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
redis.call('incrby', semaphore, more)
redis.call('set', request, number .. ' 1', 'px', ttl)

-- include: idle_leased

if tonumber(more) > 0 then
  redis.call(PUBLISH, channel, more)
end
return 1
