-- fair_ask: hold a free lock if it is our turn; else wait for that, and learn when to ask again.
--
-- A waiter keeps its place in the queue by asking again. Each time its deadline moves: it is one
-- *wait* from now, and one more for each place before it. At the deadline the place ends. A waiter
-- that leaves the queue takes one *wait* off each deadline behind it, as in Redisson. So waiters
-- that died together lose their places together, and one script skips them all. If the waiter that
-- leaves is alive, those behind it keep time to ask again, in case their own *wait* is shorter.
--
-- Only deadlines that contain our waits become shorter. The fraction .25, in milliseconds, marks
-- them. A deadline that Redisson sets behind one of ours inherits the fraction. An entry that is
-- only in the list, or only in the zset, stops nobody.
--
-- KEYS     lock, queue, timeouts
-- ARGV     lease, holder, waits, #wait, channel
-- Returns  nil when held; {milliseconds until it must ask again, 1} when in the queue; else {what
--          is left of the other's lease in milliseconds (-1: never ends, -2: the lock is free and
--          others are first), 0}
-- Source   RedissonFairLock.tryLockInnerAsync
-- Wire     the hash, the list and the zset; "0" to a waiter that is first now because those
--          before it are gone
-- A waiter with a longer wait than ours takes more off the deadlines behind it. How much cannot be
-- seen. Redisson's waiters take 300 s off.
local LONGER_WAIT = math.max(300000, wait)

local left = redis.call('pttl', lock)
local free = left == -2
local head = redis.call('lindex', queue, 0)

local function take()
  redis.call('hset', lock, holder, '1')
  if left < tonumber(lease) then
    redis.call('pexpire', lock, lease)
  end
end

if free and not head or not free and redis.call('hexists', lock, holder) == 1 then
  return take()
end

-- include: fair_queue

local function stay(place)
  local longer = 0
  local before = place > 0 and deadline_of(redis.call('lindex', queue, place - 1))
  if before then
    -- If a waiter of Redisson is first, its deadline also contains what is left of the lease.
    local surplus = before - now - place * wait - math.max(tonumber(lease), left)
    longer = math.max(0, math.ceil(surplus / LONGER_WAIT))
  end
  redis.call('zadd', timeouts, now + (place + 1) * wait + longer * LONGER_WAIT, holder)
end

local place = redis.call('lpos', queue, holder)
if place then
  redis.call('zrem', timeouts, '') -- a full server refuses ZADD, but only as the first write
  stay(place)
end
local gone, floor = 0, now
head, gone = drop_dead(head, gone)
local turn = free and (not head or head == holder)
if not head then
  redis.call('del', timeouts)
elseif turn then
  redis.call('lrem', queue, 0, holder)
  redis.call('zrem', timeouts, holder)
  gone, floor = gone + 1, now + math.floor(wait / 3)
elseif free and gone > 0 then
  redis.pcall(PUBLISH, channel .. ':' .. head, '0')
end
if gone > 0 then
  move_up(0, gone, floor)
end
if turn then
  return take()
end
if waits == '1' and not place then
  place = redis.call('rpush', queue, holder) - 1
  stay(place)
end
if not place then
  return {left, 0}
end
if free then
  left = deadline_of(head) - now
elseif left < 0 then
  left = wait
end
return {math.max(1, math.floor(math.min(left, wait / 3))), 1}
