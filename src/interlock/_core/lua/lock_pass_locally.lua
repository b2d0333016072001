-- lock_pass_locally: release the lock and acquire it for another holder: one step, no message.
--
-- KEYS[1]  lock       hash {holder: depth}; its TTL is the lease
-- KEYS[2]  queue      zset, the queue; may be left out, with the client
-- ARGV[1]  holder     string, "<client id>:<number>", which holds the lock at depth 1
-- ARGV[2]  successor  string, "<client id>:<number>", which is to hold it at depth 1
-- ARGV[3]  lease      integer > 0, milliseconds, of the successor
-- ARGV[4]  client     string, the client id: it and the successor leave the queue; may be left out
--
-- Returns  1 when the successor holds it, also when it did before (sending it twice only renews the
--          lease); nil when neither of the two holds the lock (*client* has left the queue)
-- Source   none: Redisson has no such thing. Others see one holder after the other, as ever
-- Wire     the hash and its TTL as lock_acquire leaves them; this code is our own
local lock, queue, holder, successor = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local lease, client = ARGV[3], ARGV[4]

if client then
  redis.pcall('zrem', queue, client, successor)
end

if redis.call('hexists', lock, successor) == 1 then
  if redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
  end
  return 1
end
if redis.call('hexists', lock, holder) == 0 then
  return nil
end
-- In this order: a key that was gone for a moment cannot be made again while its slot moves.
redis.call('hset', lock, successor, '1')
redis.call('hdel', lock, holder)
redis.call('pexpire', lock, lease)
return 1
