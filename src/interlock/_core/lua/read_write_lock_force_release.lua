-- read_write_lock_force_release: remove all readers, or the writer, and tell the waiters.
--
-- KEYS[1]  lock     hash {mode: read or write, reader: depth, writer: depth}
-- ARGV[1]  side     0: only if it is held for reading; 1: only if it is held for writing
-- ARGV[2]  channel  string, where waiters listen
--
-- Returns  1 when it was locked that way, else 0
-- Source   RedissonReadLock and RedissonWriteLock, forceUnlockAsync, Redisson 4.7.0
-- Wire     the hash, and "0" or "1" on the channel; the readers' entries end by themselves, and
--          mean nothing without the hash; this code is our own
local lock, side, channel = KEYS[1], ARGV[1], ARGV[2]

if redis.call('hget', lock, 'mode') ~= (side == '1' and 'write' or 'read') then
  return 0
end
redis.call(PUBLISH, channel, side)
redis.call('del', lock)
return 1
