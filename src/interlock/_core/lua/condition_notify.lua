-- condition_notify: the first waiters of a condition wait for the lock from now on, at the end of its
-- queue. A copy may wake one more. It is also how a waiter leaves: if it was notified, and is to pass
-- that on, the next one is.
--
-- Who does not listen just now loses its place instead: if it lives, its look finds that, and it
-- wakes. So a notification may wake one too many, never too few. Where there is no queue, all of a
-- client's waiters look, as they do if nobody holds the lock, and would release it to them.
--
-- KEYS     lock, condition, queue?
-- ARGV     holder, #count, channel, how?
-- Returns  how many were moved; nil when the lock is not held; -1 when a leaver had not been notified
-- Source   threading.Condition.notify of Python 3.13; asyncio.Condition.wait, when it is cancelled

local leaves = how == 'leave' or how == 'pass on'
if leaves and redis.call('zrem', condition, holder) == 1 then
  return -1
end
local held = redis.call('hexists', lock, string.match(holder, '^[^?]*')) == 1
if leaves then
  -- Else this may be a copy.
  local notified = held or not queue or redis.call('zscore', queue, holder)
  if how == 'leave' or not notified then
    return 0
  end
elseif holder ~= '' and not held then
  return nil
end

-- include: places

local MOST = 1000 -- waiters who do not listen; after those all are woken
local heard = {} -- by client: whether it listens
-- Clients listen to the same channels whether they may use the queue or not.
local alarms = queue and wakes or 'interlock_wake' .. string.match(channel, ':.*') .. ':'
local looks = not queue or redis.call('exists', lock) == 0
local moved = 0
for _, member in ipairs(redis.call('zrange', condition, 0, count + MOST - 1)) do
  if moved == count then
    break
  end
  local client, deaf = string.match(member, '^[^:]*'), string.sub(member, -1) == '?'
  if not deaf and heard[client] == nil then
    local counts = redis.pcall('pubsub', NUMSUB, alarms .. client)
    heard[client] = not counts.err and counts[2] > 0
  end
  redis.call('zrem', condition, member)
  if deaf or heard[client] then
    if queue then
      local former, score = '', nil
      -- include: join
    end
    if looks then
      redis.pcall(PUBLISH, alarms .. client, '')
    end
    moved = moved + 1
  end
end
if moved < count or how == 'all' then
  redis.call('del', condition)
end
return moved
