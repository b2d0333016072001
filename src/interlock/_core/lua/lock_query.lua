-- lock_query: tell who holds the lock, how deep, and for how long.
--
-- KEYS     lock
-- Returns  {PTTL, milliseconds (-1: never ends, -2: not locked), holder, depth, holder, depth, ...}
-- Source   RLock.isLocked, getHoldCount and remainTimeToLive

local answer = redis.call('hgetall', lock)
table.insert(answer, 1, redis.call('pttl', lock))
return answer
