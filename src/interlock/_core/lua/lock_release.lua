-- lock_release: go down to *depth*; at 0 give the lock to the next client, or free it.
--
-- Freeing it tells the waiters.
--
-- A release to the former depth undoes an acquire that was interrupted at any point. The TTL is
-- left alone: an inner release does not change the outer hold's lease.
--
-- A server that is out of memory refuses HSET, but only as a script's first write. So an HDEL of a
-- field that never exists comes first.
--
-- A lock that is given to a client has the field "<client id>:0", its claim, for 250 ms. If the
-- client waits in the name of a holder, that holder has the lock, for 250 ms too.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  queue    zset {client or holder: when it came, in ms}; may be left out
-- ARGV[1]  holder   string, "<client id>:<number>"
-- ARGV[2]  depth    integer >= 0, the depth to reach: sending it twice changes nothing
-- ARGV[3]  channel  string, where waiters listen
-- ARGV[4]  leaving  string, the id of a client that leaves the queue, as does the holder; it gives
--                   up its claim; may be left out
--
-- Returns  1 when done, 2 when the holder's own client got the lock; nil when this holder does not
--          hold it (a client that is *leaving* has left the queue)
-- Source   RLock.unlock, Redisson 4.7.0
-- Wire     the hash, and "0" on the channel when it is freed. With clients in the queue, the first
--          one gets a claim for 250 ms, and "0" or "=<number>:<time>" on its wake channel. If the
--          lock is left to others for a moment, "20" is sent there, and "00" on the channel if
--          others listen; this code is our own
local lock, queue, holder, depth = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local channel, leaving = ARGV[3], ARGV[4]

if leaving and queue then
  redis.pcall('zrem', queue, leaving, holder)
end
if leaving and redis.call('hexists', lock, leaving .. ':0') == 1 then
  holder = leaving .. ':0'
end
if redis.call('hexists', lock, holder) == 0 then
  -- The client that leaves may have been told to ask for a free lock in 20 ms. Then the next one
  -- must be told.
  if not leaving or redis.call('exists', lock) == 1 then
    return nil
  end
elseif depth ~= '0' then
  redis.call('hdel', lock, '')
  redis.call('hset', lock, holder, depth)
  return 1
end
if not queue or redis.pcall('exists', queue) ~= 1 then
  redis.call('del', lock)
  redis.call(PUBLISH, channel, '0')
  return 1
end
redis.pcall('zrem', queue, holder)
local name, freed = string.match(channel, ':.*'), '0'

-- include: microseconds
-- include: pass_on

-- The key never goes away in between: while its slot moves, a script cannot make it anew.
local function give(next)
  redis.call('hset', lock, next, '1')
  redis.call('hdel', lock, holder)
  redis.call('pexpire', lock, CLAIM)
end

local next = pass_on(give)
if type(next) ~= 'string' then
  redis.call('del', lock)
elseif not string.find(next, ':', 1, true) then
  give(next .. ':0')
end
if not next then
  redis.call(PUBLISH, channel, '0')
end
local ours = string.match(holder, '^[^:]*')
return type(next) == 'string' and string.match(next, '^[^:]*') == ours and 2 or 1
