-- lock_give: make another holder id the holder of a lock, at depth 1.
--
-- Repeated, it renews the successor's lease at most. A copy that comes late finds neither of the two.
--
-- KEYS     lock, queue?
-- ARGV     holder, successor, lease
-- Returns  1 when the successor holds it, also when it did before; nil when neither of the two does
-- Wire     the hash and its TTL as after an acquire

if redis.call('hexists', lock, holder) == 1 then
  redis.call('hdel', lock, '') -- a full server refuses HSET, but only as the first write
  -- In this order: a key that was gone for a moment cannot be made again while its slot moves.
  redis.call('hset', lock, successor, '1')
  redis.call('hdel', lock, holder)
  redis.call('pexpire', lock, lease)
  if queue then
    redis.call('zrem', queue, holder, holder .. '?') -- else its mark would tell that it was late
  end
elseif redis.call('hexists', lock, successor) == 0 then
  return nil
elseif redis.call('pttl', lock) < tonumber(lease) then
  redis.call('pexpire', lock, lease)
end
return 1
