-- fair_lock_force_release: free the lock, even if another owner holds it, and tell the next waiter.
--
-- The waiters stay in the queue. fair_lock_acquire tells how dead ones are removed, and how the
-- others move up. A copy that comes after another one was executed does nothing, so it breaks no
-- later hold.
--
-- KEYS[1]  lock      hash {holder: depth}
-- KEYS[2]  queue     list of holders, the next one first
-- KEYS[3]  timeouts  zset {holder: its deadline, epoch milliseconds by the server's clock}; ours
--                    have the fraction .25
-- KEYS[4]  request   string, the answer to this call, for copies of it; may be left out
-- ARGV[1]  wait      integer > 0, milliseconds for which a waiter may be silent
-- ARGV[2]  channel   string; the waiter <holder> listens on "<channel>:<holder>"
-- ARGV[3]  ttl       integer > 0, milliseconds that the request is remembered; may be left out
--
-- Returns  1 when it was locked, else 0
-- Source   RedissonFairLock.forceUnlockAsync, Redisson 4.7.0, with the server's clock
--          in place of the client's
-- Wire     the hash, the list, the zset, the request; "0" to the first waiter; this code is our own
local lock, queue, timeouts, request = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local wait, channel, ttl = tonumber(ARGV[1]), ARGV[2], ARGV[3]

local before = request and redis.pcall('get', request)
if type(before) == 'string' then
  return tonumber(before)
end
if redis.call('hlen', lock) == 0 then
  if request then
    redis.pcall('set', request, 0, 'px', ttl)
  end
  return 0
end

-- include: fair_queue

local head, gone = drop_dead(redis.call('lindex', queue, 0), 0)
if not head then
  redis.call('del', timeouts)
elseif gone > 0 then
  move_up(0, gone, now)
end
redis.call('del', lock)
if request then
  redis.pcall('set', request, 1, 'px', ttl)
end
if head then
  redis.call(PUBLISH, channel .. ':' .. head, '0')
end
return 1
