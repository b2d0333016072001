-- write_lock_acquire: reach *depth* as the writer, or learn how long others may keep the lock.
--
-- Readers whose entries have all ended have died. They are removed, and the TTL becomes the longest
-- lease of the others. A re-entry never shortens the lease, and leases are not added up.
--
-- A depth above 1 is a re-entry: it does not take the lock again if it was lost meanwhile.
--
-- KEYS[1]     lock     hash {mode: read or write, reader: depth, writer: depth}; its TTL is the
--                      lease
-- KEYS[2]     queue    zset {client or holder: when it came, in ms}; may be left out, with all
--                      about it
-- KEYS[3..n]  entry    string "1", entries of readers; may be left out
-- ARGV[1]     lease    integer > 0, milliseconds
-- ARGV[2]     holder   string, "<client id>:<number>:write"
-- ARGV[3]     depth    integer > 0, the depth to reach: sending it twice changes nothing
-- ARGV[4]     told     string, the readers whose entries are given; see readers
-- ARGV[5]     client   string, the client id: it waits in the queue; may be left out
-- ARGV[6]     others_wait  1: others of the client wait, so it stays in the queue; may be left out
-- ARGV[7]     keep     integer > 0, milliseconds that the queue is kept; may be left out
-- ARGV[8]     starts   1: the client waits in the name of *holder*, which a release may make the
--                      next holder; may be left out
--
-- Returns  nil when held; else what is left of the others' lease, milliseconds (-1: never ends, -2:
--          a re-entry found no lock); 20 if a free lock is left to others. With *starts*, a list of
--          this and the server's time, in microseconds, as a string
-- Source   RedissonWriteLock.tryLockInnerAsync, Redisson 4.7.0, without adding up leases
-- Wire     the hash and its TTL; this code is our own
local lock, queue, entry, keys = KEYS[1], KEYS[2], KEYS[3], KEYS
local lease, holder, depth, told = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local client, others_wait, keep, starts = ARGV[5], ARGV[6], ARGV[7], ARGV[8]

local free = depth == '1' and redis.call('exists', lock) == 0
if free and not client then
  redis.call('hset', lock, 'mode', 'write', holder, depth)
  redis.call('pexpire', lock, lease)
  return nil
end

local named, side = holder, ':write'
local me = starts and named or client

-- include: join

-- include: join_others

-- include: reach_depth

-- include: readers

-- include: longest_of_others

local mode, held = unpack(redis.call('hmget', lock, 'mode', holder))
local longest
if not held and depth == '1' and mode == 'read' then
  longest = longest_of_others()
  if type(longest) == 'table' then
    return longest
  end
  if longest > 0 then
    redis.call('pexpire', lock, longest)
  end
  if longest == -2 then
    redis.call('del', lock)
    longest, free = nil, true
  end
end
local left = reach_depth(free)
left = left and longest or left
local now = left and starts and microseconds()
return now and {left, now} or left
