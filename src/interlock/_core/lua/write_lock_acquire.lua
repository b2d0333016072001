-- write_lock_acquire: reach *depth* as the writer, or learn how long others may keep the lock.
--
-- Readers whose entries have all ended have died: they are removed, and the TTL becomes the longest of the others'. Entering
-- again never shortens the lease, and never adds to it.
--
-- A depth above 1 is a re-entry: it never takes a lock anew that was lost meanwhile.
--
-- KEYS[1]  lock     hash {mode: read or write, reader: depth, writer: depth}; its TTL is the lease
-- ARGV[1]  lease    integer > 0, milliseconds
-- ARGV[2]  holder   string, "<client id>:<number>:write"
-- ARGV[3]  depth    integer > 0, the depth to reach: sending it twice changes nothing
-- ARGV[4]  prefix   string, what the key of every reader's entry begins with
--
-- Returns  nil when held; else what is left of the others' lease, milliseconds (-1: never ends, -2: a re-entry found no lock)
-- Source   RedissonWriteLock.tryLockInnerAsync, Redisson 4.7.0, without adding up leases
-- Wire     the hash and its TTL; this text is our own
local lock, lease, holder, depth, prefix = KEYS[1], tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]

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

local mode, held = unpack(redis.call('hmget', lock, 'mode', holder))
if not held and depth == 1 and mode == 'read' then
  local longest = longest_of_others()
  if longest > 0 then
    redis.call('pexpire', lock, longest)
  end
  if longest ~= -2 then
    return longest
  end
  redis.call('del', lock)
elseif not held and (depth > 1 or redis.call('exists', lock) == 1) then
  return redis.call('pttl', lock)
end
redis.call('hset', lock, 'mode', 'write', holder, depth)
if redis.call('pttl', lock) < lease then
  redis.call('pexpire', lock, lease)
end
return nil
