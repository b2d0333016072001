-- condition_end: end a wait, and tell whether it was notified; copies get the same answer.
--
-- KEYS[1]  waiting  zset {waiter: its place}, of those who were not notified
-- KEYS[2]  leases   zset {waiter: when its lease ends, epoch milliseconds by the server's clock}
-- KEYS[3]  request  string, what became of this wait
-- ARGV[1]  waiter   string, its id
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is remembered
--
-- Returns  1 when it was notified, else 0
-- Source   threading.Condition.wait of Python 3.13
-- Wire     ours alone: Redisson has no such object
local waiting, leases, request, waiter, ttl = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]

local before = redis.call('get', request)
if before and before ~= 'waits' then
  return before == 'notified' and 1 or 0
end
local waits = redis.call('zrem', waiting, waiter)
local lives = redis.call('zrem', leases, waiter)
local notified = lives == 1 and waits == 0
-- A server that is out of memory refuses SET, but only as a script's first write. So a ZREM comes
-- first.
redis.call('set', request, notified and 'notified' or 'over', 'px', ttl)
return notified and 1 or 0
