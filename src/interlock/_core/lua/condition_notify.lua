-- condition_notify: the first waiters of a condition wait for the lock from now on, at the end of its
-- queue. A copy may wake one more.
--
-- KEYS[1]  lock       hash {holder: depth}, of any kind of lock
-- KEYS[2]  condition  zset, as for condition_wait
-- KEYS[3]  queue      zset, as for lock_ask; may be left out
-- ARGV[1]  holder     string, which holds the lock; "": it need not be held any more
-- ARGV[2]  count      integer > 0, how many
-- ARGV[3]  channel    string, where Java listens
-- ARGV[4]  all        "1": those behind them are woken, too; may be left out
--
-- Returns  how many were moved; nil when the lock is not held
-- Source   threading.Condition.notify of Python 3.13
-- Wire     ours alone: Redisson has no such object
local lock, condition, queue = KEYS[1], KEYS[2], KEYS[3]
local holder, count, channel, all = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

if holder ~= '' and redis.call('hexists', lock, holder) == 0 then
  return nil
end

-- include: places

-- include: notify

local moved = notify(count)
if all == '1' then
  redis.call('del', condition)
end
return moved
