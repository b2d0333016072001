-- read_write_lock_force_release: remove all readers, or the writer, and tell the waiters.
--
-- A copy that comes after another one was executed does nothing, so it breaks no later hold.
--
-- KEYS[1]  lock     hash {mode: read or write, reader: depth, writer: depth}
-- KEYS[2]  request  string, the answer to this call, for copies of it; may be left out, with ttl
-- ARGV[1]  side     0: only if it is held for reading; 1: only if it is held for writing
-- ARGV[2]  channel  string, where waiters listen
-- ARGV[3]  ttl      integer > 0, milliseconds that the request is remembered; may be left out
--
-- Returns  1 when it was locked that way, else 0
-- Source   RedissonReadLock and RedissonWriteLock, forceUnlockAsync, Redisson 4.7.0
-- Wire     the hash, the request, and "0" or "1" on the channel; the readers' entries end by
--          themselves, and mean nothing without the hash; this code is our own
local lock, request, side, channel, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

local before = request and redis.pcall('get', request)
if type(before) == 'string' then
  return tonumber(before)
end
if redis.call('hget', lock, 'mode') ~= (side == '1' and 'write' or 'read') then
  if request then
    redis.pcall('set', request, 0, 'px', ttl)
  end
  return 0
end
redis.call(PUBLISH, channel, side)
redis.call('del', lock)
if request then
  redis.pcall('set', request, 1, 'px', ttl)
end
return 1
