-- read_write_lock_force_release: remove all readers, or the writer, and tell the waiters.
--
-- KEYS[1]  lock     hash {mode: read or write, reader: depth, writer: depth}
-- ARGV[1]  side     0: only if it is held for reading; 1: only if it is held for writing
-- ARGV[2]  prefix   string, what the key of every reader's entry begins with
-- ARGV[3]  channel  string, where waiters listen
--
-- Returns  1 when it was locked that way, else 0
-- Source   RedissonReadLock and RedissonWriteLock, forceUnlockAsync, Redisson 4.7.0; here the
--          readers' entries are removed too
-- Wire     the hash and the entries, and "0" or "1" on the channel; this code is our own
local lock, side, prefix, channel = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if redis.call('hget', lock, 'mode') ~= (side == '1' and 'write' or 'read') then
  return 0
end
redis.call(PUBLISH, channel, side)
local fields = redis.call('hgetall', lock)
for i = 1, #fields, 2 do
  -- Bounded: a huge depth, written by another program, must not stall the server.
  for n = 1, math.min(tonumber(fields[i + 1]) or 0, 1000) do
    redis.call('del', prefix .. fields[i] .. ':rwlock_timeout:' .. n)
  end
end
redis.call('del', lock)
return 1
