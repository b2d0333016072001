-- leased_semaphore_try_set: create a missing semaphore, and tell the waiters.
--
-- A call counts once, however often it arrives. The server may have evicted the number alone. Then
-- permits that are held count.
--
-- KEYS[1]  number     string, the number of free permits
-- KEYS[2]  request    string, the latch of this call: the answer to it
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; if there is none, a
--                     key that never exists
-- KEYS[4]  leases     zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- ARGV[1]  count      integer >= 0
-- ARGV[2]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[3]  channel    string, where waiters listen
--
-- Returns  1 when created, 0 when there was one
-- Source   RPermitExpirableSemaphore.trySetPermits, Redisson 4.7.0
-- Wire     the number, and the sum of free and held ones on the channel; this code is our own
local number, request, spent, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local count, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

-- include: make_number

local held = redis.call('zcard', leases)
if held > 0 then
  redis.call('decrby', number, held)
end
redis.call(PUBLISH, channel, count)
return 1
