-- barrier_leave: take back the arrival of a party that waits no longer.
--
-- KEYS[1]  waiting  zset {party: when its lease ends, epoch milliseconds by the server's clock}
-- ARGV[1]  party    string, its id
--
-- Returns  1 when it waited, else 0
-- Source   threading.Barrier.wait of Python 3.13, when it is interrupted
-- Wire     ours alone: Redisson has no such object
local waiting, party = KEYS[1], ARGV[1]

return redis.call('zrem', waiting, party)
