-- read_lock_acquire: reach *depth* as a reader, or learn how long the writer may keep the lock.
--
-- Each entry of a reader is a key whose TTL is the entry's lease; a reader without any has died. The TTL of the lock is that of
-- the longest entry, and while the lock is held for writing at least the writer's lease. A reader that joins others removes the
-- dead ones among them when it makes the number of all a multiple of sixteen: so they cannot pile up, and most pay nothing.
--
-- A depth above 1 is a re-entry: it never takes a lock anew that was lost meanwhile.
--
-- KEYS[1]     lock     hash {mode: read or write, reader: depth, writer: depth}
-- KEYS[2..n]  entry    string "1", one for each entry up to *depth*
-- ARGV[1]     lease    integer > 0, milliseconds
-- ARGV[2]     holder   string, "<client id>:<number>"
-- ARGV[3]     depth    integer > 0, the depth to reach: sending it twice changes nothing
-- ARGV[4]     writer   string, the field of the same owner's write hold; empty when it has none
-- ARGV[5]     prefix   string, what the key of every reader's entry begins with
--
-- Returns  nil when held; else what is left of the other's lease, milliseconds (-1: never ends, -2: a re-entry found no lock)
-- Source   RedissonReadLock.tryLockInnerAsync, Redisson 4.7.0; never shortens another's lease, and removes the dead
-- Wire     the hash, the entries and their TTLs; this text is our own
local lock, entries, lease, holder, depth, writer, prefix = KEYS[1], KEYS, tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local NOW_AND_THEN = 16

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

local mode, held, written = unpack(redis.call('hmget', lock, 'mode', holder, writer))
local left = redis.call('pttl', lock)
local open = not mode and left == -2 or mode == 'read' or mode == 'write' and written
if not held and (depth > 1 or not open) then
  return left
end
redis.call('hset', lock, 'mode', mode or 'read', holder, depth)
for i = 2, #entries do
  if not held or redis.call('pttl', entries[i]) < lease then
    redis.call('set', entries[i], '1', 'px', lease)
  end
end
if mode == 'read' and not held and (redis.call('hlen', lock) - 1) % NOW_AND_THEN == 0 then
  redis.call('pexpire', lock, math.max(lease, longest_of_others()))
elseif left < lease then
  redis.call('pexpire', lock, lease)
end
return nil
