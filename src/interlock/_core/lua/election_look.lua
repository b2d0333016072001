-- election_look: tell a candidate how long the term lasts, and how many clients want the next one.
--
-- A server that is out of memory refuses ZADD, but only as a script's first write. So a ZREM of a
-- member that never exists comes first.
--
-- KEYS[1]  election    hash {holder: 1}; its TTL is the lease
-- KEYS[2]  candidates  zset {client id: end of its stay, epoch milliseconds by the server's clock}
-- ARGV[1]  client      string, the id of the candidate's client
-- ARGV[2]  stay        integer > 0, milliseconds for which the client is counted
--
-- Returns  {PTTL in milliseconds (-1: never ends, -2: nobody leads), number of clients}
-- Source   none: the answer lets many candidates spread their polls
-- Wire     ours alone: Redisson has no such object
local election, candidates, client, stay = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('zremrangebyscore', candidates, 0, now)
redis.call('zrem', candidates, '')
redis.call('zadd', candidates, now + stay, client)
if redis.call('pttl', candidates) < stay then
  redis.call('pexpire', candidates, stay)
end
return {redis.call('pttl', election), redis.call('zcard', candidates)}
