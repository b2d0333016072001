-- condition_leave: undo a wait; if it was notified, the next waiter gets the notification.
--
-- KEYS[1]  waiting  zset {waiter: its place}, of those who were not notified
-- KEYS[2]  leases   zset {waiter: when its lease ends, epoch milliseconds by the server's clock}
-- KEYS[3]  request  string, what became of this wait
-- ARGV[1]  waiter   string, its id
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is remembered
-- ARGV[3]  channel  string, what the channel of each waiter begins with
--
-- Returns  1 when it waited or was notified, else 0
-- Source   asyncio.Condition.wait of Python 3.13, when it is cancelled
-- Wire     ours alone: Redisson has no such object
local waiting, leases, request = KEYS[1], KEYS[2], KEYS[3]
local waiter, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local waits = redis.call('zrem', waiting, waiter)
local lives = redis.call('zrem', leases, waiter)
local notified = lives == 1 and waits == 0 or redis.call('get', request) == 'notified'
-- A server that is out of memory refuses SET, but only as a script's first write. So a ZREM comes
-- first.
redis.call('set', request, 'left', 'px', ttl)
if notified then
  local next = redis.call('zrange', waiting, 0, 0)[1]
  if next then
    redis.call('zrem', waiting, next)
    redis.call(PUBLISH, channel .. ':' .. next, '1')
  end
end
return math.max(lives, notified and 1 or 0)
