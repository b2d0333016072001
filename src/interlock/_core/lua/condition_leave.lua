-- condition_leave: a waiter leaves the condition; if it was notified, perhaps the next one is.
--
-- KEYS     lock, condition, queue?
-- ARGV     leaver, channel, how?
--
-- Returns  1 when it stood there; 0 when not: it was notified
-- Source   asyncio.Condition.wait of Python 3.13, when it is cancelled

local stood = redis.call('zrem', condition, leaver)
local passes = stood == 0 and (how == '1' or how == '?' and (not queue
  or redis.call('zscore', queue, leaver)
  or redis.call('hexists', lock, string.match(leaver, '^[^?]*')) == 1))
if not passes then
  return stood
end

-- include: places, notify

notify(1)
return 0
