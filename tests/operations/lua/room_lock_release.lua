-- room_lock_release: go down to *depth*; at 0 free the place, and tell the waiters.
--
-- A release to the former depth undoes an acquire that was interrupted at any point. No lease
-- changes: an inner release does not change the outer hold's lease.
--
-- A server that is out of memory refuses HSET, but only as a script's first write. So an HDEL of a
-- field that never exists comes first.
--
-- KEYS[1]  lock     hash {holder: depth}
-- KEYS[2]  leases   zset {holder: its end, epoch milliseconds}
-- ARGV[1]  holder   string, "<client id>:<number>"
-- ARGV[2]  depth    integer >= 0, the depth to reach: sending it twice changes nothing
-- ARGV[3]  channel  string, where waiters listen
--
-- Returns  1 when done, nil when this holder has no place
-- Source   none
-- Wire     the hash, the zset, and "0" on the channel when a place is freed
local lock, leases, holder, depth, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

if redis.call('hexists', lock, holder) == 0 then
  return nil
elseif depth ~= '0' then
  redis.call('hdel', lock, '')
  redis.call('hset', lock, holder, depth)
  return 1
end
redis.call('hdel', lock, holder)
redis.call('zrem', leases, holder)
redis.call(PUBLISH, channel, '0')
return 1
