-- condition_notify: the first waiters of a condition wait for the lock from now on, at the end of its
-- queue. A copy may wake one more.
--
-- KEYS     lock, condition, queue?
-- ARGV     holder, #count, channel, all?
--
-- Returns  how many were moved; nil when the lock is not held
-- Source   threading.Condition.notify of Python 3.13

if holder ~= '' and redis.call('hexists', lock, holder) == 0 then
  return nil
end

-- include: places, notify

local moved = notify(count)
if all == '1' then
  redis.call('del', condition)
end
return moved
