-- lock_release: go down to *depth*; at 0 free the lock and tell the waiters.
--
-- The undo of an acquire that was interrupted anywhere is the release to the former depth. The TTL is left alone: an
-- inner release neither shortens nor lengthens what the outer hold was promised.
--
-- A server that is out of memory refuses HSET, but only as a script's first write: hence the HDEL of a field that is
-- never there.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- ARGV[1]  holder   string, "<client id>:<number>"
-- ARGV[2]  depth    integer >= 0, the depth to reach: sending it twice changes nothing
-- ARGV[3]  publish  string, PUBLISH, SPUBLISH, or empty for no message
-- ARGV[4]  channel  string, where waiters listen
--
-- Returns  1 and how many subscribe to the channel, when done; nil when this holder does not hold the lock (nothing changed)
-- Source   RLock.unlock, Redisson 4.7.0
-- Wire     the hash, and "0" on the channel when it is freed; this text is our own
local lock, holder, depth, publish, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

if redis.call('hexists', lock, holder) == 0 then
  return nil
end
if depth > 0 then
  redis.call('hdel', lock, '')
  redis.call('hset', lock, holder, depth)
  return 1
end
redis.call('del', lock)
if publish == '' then
  return 1
end
local heard = redis.call(publish, channel, '0')
if heard > 1 then
  -- Pattern subscribers hear it too, and compete for nothing. Without the right to ask they count.
  local count = publish == 'SPUBLISH' and 'shardnumsub' or 'numsub'
  heard = redis.pcall('pubsub', count, channel)[2] or heard
end
return 1 + heard
