-- condition_look: tell a waiter whether it was notified, and when the next lease ends.
--
-- KEYS[1]  waiting  zset {waiter: its place}, of those who were not notified
-- KEYS[2]  leases   zset {waiter: when its lease ends, epoch milliseconds by the server's clock}
-- ARGV[1]  waiter   string, its id
-- ARGV[2]  kept     integer > 0, milliseconds that an idle condition is remembered
--
-- Returns  {0, milliseconds until the first lease ends (0: one has ended)} while it waits; else {1}
-- Source   threading.Condition of Python 3.13
-- Wire     ours alone: Redisson has no such object
local waiting, leases, waiter, kept = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])

if not redis.call('zscore', leases, waiter) or not redis.call('zscore', waiting, waiter) then
  return {1}
end
if redis.call('pttl', leases) < kept / 2 then
  redis.call('pexpire', waiting, kept)
  redis.call('pexpire', leases, kept)
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local first = redis.call('zrange', leases, 0, 0, 'withscores')
-- Never negative: the caller reads -1 as a lease that never ends, as with PTTL.
return {0, math.max(tonumber(first[2]) - now, 0)}
