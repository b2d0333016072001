-- write_lock_release: go down to *depth*; at 0 free the lock, or leave it to the owner's own reading, and tell the waiters.
--
-- The undo of an acquire that was interrupted anywhere is the release to the former depth. An owner that still reads has its
-- lock from now on for reading, and for the lease of that; Redisson tells nobody then, and its own waiting readers sleep on.
--
-- A lock that is given to a client has the field "<client id>:0:write", for 250 ms. The client
-- makes it its own, to write or to read.
--
-- What a user may not do fails before the lock is freed, and a server that is out of memory refuses HSET only as a script's first
-- write: see lock_release.
--
-- KEYS[1]  lock     hash {mode: read or write, reader: depth, writer: depth}; its TTL is the lease
-- ARGV[1]  holder   string, "<client id>:<number>:write"
-- ARGV[2]  depth    integer >= 0, the depth to reach: sending it twice changes nothing
-- ARGV[3]  prefix   string, what the key of every reader's entry begins with
-- ARGV[4]  publish  string, PUBLISH, SPUBLISH, or empty for no message
-- ARGV[5]  channel  string, where waiters listen
-- ARGV[6]  leaving  string, the id of a client that leaves the queue; may be left out
--
-- Returns  1 when done, nil when this holder does not write (nothing changed)
-- Source   RedissonWriteLock.unlockInnerAsync, Redisson 4.7.0, with a message when the owner goes on reading
-- Wire     the hash and its TTL; "1" on the channel when it is not held for writing any more; "01"
--          if those in the queue need not look; this text is our own
local lock, holder, depth, prefix, publish, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local leaving = ARGV[6]

-- include: longest_of_others

if leaving then
  redis.pcall('zrem', 'interlock_queue' .. string.match(channel, ':.*'), leaving)
end
if redis.call('hexists', lock, holder) == 0 then
  -- Who was told to take a free lock in a while, and leaves, must tell the next one.
  if not leaving or redis.call('exists', lock) == 1 then
    return nil
  end
elseif depth > 0 then
  redis.call('hdel', lock, '')
  redis.call('hset', lock, holder, depth)
  return 1
end
local longest = longest_of_others()
local freed = '1'
local name = string.match(channel, ':.*')
local queue = 'interlock_queue' .. name
local queued = publish ~= '' and redis.pcall('exists', queue) == 1
if longest ~= -2 then
  if publish ~= '' then
    redis.call(publish, channel, queued and '01' or '1')
  end
  redis.call('hdel', lock, holder)
  redis.call('hset', lock, 'mode', 'read')
  if longest >= 0 then
    redis.call('pexpire', lock, math.max(longest, 1))
  end
  return 1
end
if not queued then
  if publish ~= '' then
    redis.call(publish, channel, '1')
  end
  redis.call('del', lock)
  return 1
end

-- include: pass_on

redis.call('hdel', lock, '')
local next = pass_on()
if not next then
  redis.call(publish, channel, '1')
end
redis.call('del', lock)
if type(next) == 'string' then
  redis.call('hset', lock, 'mode', 'write', next .. ':0:write', '1')
  redis.call('pexpire', lock, '250')
end
return 1
