-- write_lock_release: go down to *depth*; at 0 free the lock, or leave it to the owner's own reading, and tell the waiters.
--
-- The undo of an acquire that was interrupted anywhere is the release to the former depth. An owner that still reads has its
-- lock from now on for reading, and for the lease of that; Redisson tells nobody then, and its own waiting readers sleep on.
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
--
-- Returns  1 when done, nil when this holder does not write (nothing changed)
-- Source   RedissonWriteLock.unlockInnerAsync, Redisson 4.7.0, with a message when the owner goes on reading
-- Wire     the hash and its TTL; "1" on the channel when it is not held for writing any more; this text is our own
local lock, holder, depth, prefix, publish, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]

local function longest_of_others()
  local longest, fields = -2, redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    local reader, left = fields[i], -2
    if reader ~= holder and reader ~= 'mode' then
      -- Bounded: a depth that somebody else wrote there must not stall the server.
      for n = 1, math.min(tonumber(fields[i + 1]), 1000) do
        left = math.max(left, redis.call('pttl', prefix .. reader .. ':rwlock_timeout:' .. n))
      end
      if left == -2 then
        redis.call('hdel', lock, reader)
      end
      longest = math.max(longest, left)
    end
  end
  return longest
end

if redis.call('hexists', lock, holder) == 0 then
  return nil
end
if depth > 0 then
  redis.call('hdel', lock, '')
  redis.call('hset', lock, holder, depth)
  return 1
end
if publish ~= '' then
  redis.call(publish, channel, '1')
end
local longest = longest_of_others()
if longest == -2 then
  redis.call('del', lock)
  return 1
end
redis.call('hdel', lock, holder)
redis.call('hset', lock, 'mode', 'read')
if longest >= 0 then
  redis.call('pexpire', lock, math.max(longest, 1))
end
return 1
