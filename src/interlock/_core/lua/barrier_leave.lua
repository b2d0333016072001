-- barrier_leave: undo the arrival of a party; later copies of the arrival have no effect.
--
-- KEYS[1]  waiting  zset {party: when its lease ends, epoch milliseconds by the server's clock}
-- KEYS[2]  request  string, "<generation> <index>" of its arrival, for copies of the arrival; index
--                   -1 if the party has left
-- ARGV[1]  party    string, its id
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is remembered
--
-- Returns  1 when it waited, else 0
-- Source   threading.Barrier.wait of Python 3.13, when it is interrupted
-- Wire     ours alone: Redisson has no such object
local waiting, request, party, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

local waited = redis.call('zrem', waiting, party)
-- A server that is out of memory refuses SET, but only as a script's first write. So the ZREM
-- comes first.
redis.call('set', request, '0 -1', 'px', ttl)
return waited
