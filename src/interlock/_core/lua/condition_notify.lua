-- condition_notify: notify the first waiters, and one more for each notified waiter that died.
--
-- A waiter whose lease has ended is dead. A call counts once, however often it arrives.
--
-- KEYS[1]  waiting  zset {waiter: its place}, of those who were not notified
-- KEYS[2]  leases   zset {waiter: when its lease ends, epoch milliseconds by the server's clock}
-- KEYS[3]  request  string; exists once this call has taken effect, so that a copy does nothing
-- KEYS[4]  spent    string, the same of an answered call, to be removed; or a key that never exists
-- ARGV[1]  count    integer >= 0, how many to notify; -1 for all
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is remembered
-- ARGV[3]  channel  string, what the channel of each waiter begins with
--
-- Returns  1
-- Source   threading.Condition.notify of Python 3.13
-- Wire     ours alone: Redisson has no such object
local waiting, leases, request, spent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local count, ttl, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3]

if redis.call('exists', request) == 1 then
  return 1
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local dead = redis.call('zrangebyscore', leases, '-inf', now)
-- When memory is full, the server lets a DEL through, and then all writes that follow.
redis.call('del', spent)
redis.call('set', request, 1, 'px', ttl)
for _, waiter in ipairs(dead) do
  redis.call('zrem', leases, waiter)
  if redis.call('zrem', waiting, waiter) == 0 and count >= 0 then
    count = count + 1
  end
end
if count == 0 then
  return 1
end
local last = -1
if count > 0 then
  last = count - 1
end
for _, waiter in ipairs(redis.call('zrange', waiting, 0, last)) do
  redis.call('zrem', waiting, waiter)
  redis.call(PUBLISH, channel .. ':' .. waiter, '1')
end
return 1
