-- write_lock_release: go down to *depth*; at 0 free the lock, or go on as a reader.
--
-- Both tell the waiters.
--
-- A release to the former depth undoes an acquire that was interrupted at any point. An owner that
-- still reads holds the lock for reading from now on, for the lease of its reading. Redisson tells
-- nobody then, and its own waiting readers sleep on.
--
-- A lock that is given to a client has the field "<client id>:0:write", its claim, for 250 ms. The
-- client turns the claim into a hold, to write or to read. If the client waits in the name of a
-- writer, that writer has the lock, for 250 ms too.
--
-- If the user lacks the right to a command, the script fails before it frees the lock. A server
-- that is out of memory refuses HSET, but only as a script's first write: see lock_release.
--
-- KEYS[1]     lock     hash {mode: read or write, reader: depth, writer: depth}; its TTL is the
--                      lease
-- KEYS[2]     queue    zset {client or holder: when it came, in ms}; may be left out
-- KEYS[3..n]  entry    string "1", entries of readers; may be left out
-- ARGV[1]     holder   string, "<client id>:<number>:write"
-- ARGV[2]     depth    integer >= 0, the depth to reach: sending it twice changes nothing
-- ARGV[3]     told     string, the readers whose entries are given; see readers
-- ARGV[4]     channel  string, where waiters listen
-- ARGV[5]     leaving  string, as in lock_release; may be left out
--
-- Returns  as lock_release does; nil when this holder does not write
-- Source   RedissonWriteLock.unlockInnerAsync, Redisson 4.7.0, with a message when the owner
--          goes on reading
-- Wire     the hash and its TTL; "1" on the channel when it is no longer held for writing. With
--          clients in the queue, "01" if the owner goes on reading; else the first client gets a
--          claim for 250 ms, and "0" or "=<number>:<time>:write" on its wake channel. If the lock
--          is left to others for a moment, "20" is sent there, and "01" on the channel if others
--          listen; this code is our own
local lock, queue, entry, keys = KEYS[1], KEYS[2], KEYS[3], KEYS
local holder, depth, told = ARGV[1], ARGV[2], ARGV[3]
local channel, leaving = ARGV[4], ARGV[5]

-- include: readers

-- include: longest_of_others
queue = own > 1 and queue
local named, side = holder, ':write'

-- include: go_down

local longest = redis.call('hlen', lock) > 2 and longest_of_others() or -2
if type(longest) == 'table' then
  return longest
end
local queued = queue and redis.pcall('exists', queue) == 1
if longest ~= -2 then
  redis.call(PUBLISH, channel, queued and '01' or '1')
  redis.call('hdel', lock, holder)
  redis.call('hset', lock, 'mode', 'read')
  if longest >= 0 then
    redis.call('pexpire', lock, math.max(longest, 1))
  end
  return 1
end
if not queued then
  redis.call(PUBLISH, channel, '1')
  redis.call('del', lock)
  return 1
end
redis.pcall('zrem', queue, named)
local freed = '1'

-- include: writer_next

-- include: members

-- include: microseconds

-- include: grant

-- include: give_on

return give_on()
