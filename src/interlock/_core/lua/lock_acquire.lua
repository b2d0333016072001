-- lock_acquire: reach *depth* on a free or own lock, or learn how long its holder may keep it.
--
-- A depth above 1 is a re-entry: it does not take the lock again if it was lost meanwhile.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  queue    zset {client or holder: when it came, in ms}; may be left out, with all about
--                   it
-- ARGV[1]  lease    integer > 0, milliseconds
-- ARGV[2]  holder   string, "<client id>:<number>"
-- ARGV[3]  depth    integer > 0, the depth to reach: sending it twice changes nothing
-- ARGV[4]  client   string, the client id: it waits in the queue; may be left out
-- ARGV[5]  others_wait  1: others of the client wait, so it stays in the queue; may be left out
-- ARGV[6]  keep     integer > 0, milliseconds that the queue is kept; may be left out
-- ARGV[7]  starts   1: the client waits in the name of *holder*, which a release may make the next
--                   holder; may be left out
--
-- Returns  nil when held; else what is left of the other's lease, milliseconds (-1: never ends, -2:
--          a re-entry found no lock); 20 if a free lock is left to others. With *starts*, a list of
--          this and the server's time, in microseconds, as a string
-- Source   RLock.tryLock, Redisson 4.7.0
-- Wire     the hash and its TTL; this code is our own
local lock, queue, lease, holder, depth = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local client, others_wait, keep, starts = ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local free = depth == '1' and redis.call('exists', lock) == 0
if not client then
  -- Most often nobody waits. Then the functions below are not even created. This is `reach_depth`
  -- without a queue.
  if not free and redis.call('hexists', lock, holder) == 0 then
    return redis.call('pttl', lock)
  end
  redis.call('hset', lock, holder, depth)
  if free or redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
  end
  return nil
end

local named, side = holder, ''
local me = starts and named or client

-- include: join

-- include: join_others

-- include: reach_depth

local left = reach_depth(free)
local now = left and starts and microseconds()
return now and {left, now} or left
