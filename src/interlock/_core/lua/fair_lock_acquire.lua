-- fair_lock_acquire: reach *depth* on an own lock, or on a free one when it is our turn; else learn when to ask again.
--
-- Asking keeps the asker's place in the queue. A place ends when its holder was silent for too long: its deadline is one wait
-- for itself and one for each place before it, and whoever goes takes a wait along from all behind it, as Redisson has it. So
-- those who died together go together, and one script skips them all. One who is alive leaves everybody time to ask again, in case
-- their waits are shorter. Only deadlines that contain our waits are cut, which a quarter of a millisecond marks: what Redisson
-- sets behind one of ours inherits it. Entries of only one of list and zset stop nobody.
--
-- KEYS[1]  lock      hash {holder: depth}; its TTL is the lease
-- KEYS[2]  queue     list of holders, the next one first
-- KEYS[3]  timeouts  zset {holder: its deadline, epoch milliseconds by the server's clock, ours with .25}
-- ARGV[1]  lease     integer > 0, milliseconds
-- ARGV[2]  holder    string, "<client id>:<number>"
-- ARGV[3]  depth     integer > 0, the depth to reach: sending it twice changes nothing
-- ARGV[4]  enqueue   1: stand in the queue when it is not our turn; 0: do not, but keep a place that there is
-- ARGV[5]  wait      integer > 0, milliseconds for which a waiter may be silent
-- ARGV[6]  publish   string, PUBLISH, SPUBLISH, or empty for no message
-- ARGV[7]  channel   string, where the waiter <holder> listens, less its ":<holder>"
--
-- Returns  nil when held; else {milliseconds, 1: in the queue, and to ask again by then; 0: not in the queue, and that is what
--          is left of the other's lease (-1: never ends, -2: a re-entry found no lock)}
-- Source   RedissonFairLock.tryLockInnerAsync, Redisson 4.7.0, with the server's clock for the client's
-- Wire     the hash, the list and the zset; "0" to a waiter who is first because the ones before it went; this text is our own
local lock, queue, timeouts, lease, holder, depth, enqueue, wait, publish, channel = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', tonumber(ARGV[5]), ARGV[6], ARGV[7]
-- A waiter with a longer wait than ours takes more along. How much cannot be seen; 300 s is what Redisson's take.
local LONGER_WAIT = math.max(300000, wait)

local left = redis.call('pttl', lock)
local free = left == -2

local function hold()
  redis.call('hset', lock, holder, depth)
  if left < tonumber(lease) then
    redis.call('pexpire', lock, lease)
  end
end

if not free and redis.call('hexists', lock, holder) == 1 then
  return hold()
elseif depth ~= '1' then
  return {left, 0}
end
local head = redis.call('lindex', queue, 0)
if free and not head then
  return hold()
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000) - 0.75

local function deadline_of(waiter)
  return tonumber(redis.call('zscore', timeouts, waiter))
end

local function stay(place)
  local longer = 0
  local before = place > 0 and deadline_of(redis.call('lindex', queue, place - 1))
  if before then
    -- The first of Redisson's waiters also adds what is left of the lease.
    local surplus = before - now - place * wait - math.max(tonumber(lease), left)
    longer = math.max(0, math.ceil(surplus / LONGER_WAIT))
  end
  redis.call('zadd', timeouts, now + (place + 1) * wait + longer * LONGER_WAIT, holder)
end

local place = redis.call('lpos', queue, holder)
if place then
  stay(place)
end
local gone, floor = 0, now
while head do
  local deadline = deadline_of(head)
  if deadline and deadline - (deadline % 1 > 0 and gone * wait or 0) > now then
    break
  end
  redis.call('lpop', queue)
  redis.call('zrem', timeouts, head)
  gone, head = gone + 1, redis.call('lindex', queue, 0)
end
local turn = free and (not head or head == holder)
if not head then
  redis.call('del', timeouts)
elseif turn then
  redis.call('lrem', queue, 0, holder)
  redis.call('zrem', timeouts, holder)
  gone, floor = gone + 1, now + math.floor(wait / 3)
elseif free and gone > 0 then
  if publish ~= '' then
    redis.call(publish, channel .. ':' .. head, '0')
  end
end
if gone > 0 then
  for _, waiter in ipairs(redis.call('lrange', queue, 0, -1)) do
    local deadline = deadline_of(waiter)
    if deadline and deadline % 1 > 0 and deadline > floor then
      redis.call('zadd', timeouts, math.max(deadline - gone * wait, floor), waiter)
    end
  end
end
if turn then
  return hold()
end
if enqueue and not place then
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
