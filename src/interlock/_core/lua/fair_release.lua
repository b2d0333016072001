-- fair_release: go down to *depth*; at 0 free the lock, or leave the queue.
--
-- If the lock is free then, the next waiter is told. A waiter that leaves from behind the first one
-- tells nobody. fair_ask tells how the waiters behind move up.
--
-- KEYS     lock, queue, timeouts
-- ARGV     holder, depth, #wait, channel
-- Returns  1 when it held the lock; 0 when it only stood in the queue; nil when neither (a deadline
--          without a place in the list is removed; nothing else changed)
-- Source   RedissonFairLock.unlockInnerAsync, acquireFailedAsync and forceUnlockAsync
-- Wire     the hash, the list and the zset; "0" to the next waiter when the lock is free

-- include: down

local head = redis.call('lindex', queue, 0)
if held and not head then
  redis.call('del', lock, timeouts)
  return 1
end

-- include: fair_queue

local place, gone, floor = 0, 0, now
if not held then
  place = redis.call('lpos', queue, holder)
  redis.call('zrem', timeouts, holder)
  if not place then
    return nil
  end
  redis.call('lrem', queue, 0, holder)
  gone, floor, head = 1, now + math.floor(wait / 3), redis.call('lindex', queue, 0)
end
if place == 0 then
  head, gone = drop_dead(head, gone)
end
if not head then
  redis.call('del', timeouts)
elseif gone > 0 then
  move_up(place, gone, floor)
end
if held then
  redis.call('del', lock)
end
if head and place == 0 and redis.call('exists', lock) == 0 then
  redis.pcall(PUBLISH, channel .. ':' .. head, '0')
end
return held and 1 or 0
