-- condition_leave: a waiter leaves the condition; if it was notified, perhaps the next one is.
--
-- KEYS[1]  lock       hash {holder: depth}, of any kind of lock
-- KEYS[2]  condition  zset, as for condition_wait
-- KEYS[3]  queue      zset, as for lock_ask; may be left out
-- ARGV[1]  member     string, as for condition_wait
-- ARGV[2]  channel    string, where Java listens
-- ARGV[3]  how        "1": it passes its notification on; "?": it does so if it still waits for
--                     the lock or holds it, because this may be a copy; may be left out
--
-- Returns  1 when it stood there; 0 when not: it was notified
-- Source   asyncio.Condition.wait of Python 3.13, when it is cancelled
-- Wire     ours alone: Redisson has no such object
local lock, condition, queue = KEYS[1], KEYS[2], KEYS[3]
local leaver, channel, how = ARGV[1], ARGV[2], ARGV[3]

local stood = redis.call('zrem', condition, leaver)
local passes = stood == 0 and (how == '1' or how == '?' and (not queue
  or redis.call('zscore', queue, leaver)
  or redis.call('hexists', lock, string.match(leaver, '^[^?]*')) == 1))
if not passes then
  return stood
end

-- include: places

-- include: notify

notify(1)
return 0
