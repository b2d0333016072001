-- condition_enlist: add a waiter behind all others; once, however often the call arrives.
--
-- KEYS[1]  waiting  zset {waiter: its place}, of those who were not notified
-- KEYS[2]  leases   zset {waiter: when its lease ends, epoch milliseconds by the server's clock}
-- KEYS[3]  request  string, what became of this wait
-- KEYS[4]  spent    string, the same of an answered call, to be removed; or a key that never
--                   exists
-- ARGV[1]  waiter   string, an id that nobody else has
-- ARGV[2]  lease    integer > 0, milliseconds for which it counts as alive without a renewal
-- ARGV[3]  ttl      integer > 0, milliseconds that the request is remembered
-- ARGV[4]  kept     integer > 0, milliseconds that an idle condition is remembered
--
-- Returns  1
-- Source   threading.Condition.wait of Python 3.13
-- Wire     ours alone: Redisson has no such object
local waiting, leases, request, spent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local waiter, lease, ttl, kept = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

if redis.call('exists', request) == 1 then
  return 1
end
local last = redis.call('zrange', waiting, -1, -1, 'withscores')
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- When memory is full, the server lets a DEL through, and then all writes that follow.
redis.call('del', spent)
redis.call('set', request, 'waits', 'px', ttl)
redis.call('zadd', waiting, (last[2] or 0) + 1, waiter)
redis.call('zadd', leases, now + lease, waiter)
redis.call('pexpire', waiting, kept)
redis.call('pexpire', leases, kept)
return 1
