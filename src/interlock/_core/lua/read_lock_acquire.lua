-- read_lock_acquire: reach *depth* as a reader, or learn how long the writer may keep the lock.
--
-- Each entry of a reader is a key whose TTL is the entry's lease; a reader without any has died. The TTL of the lock is that of
-- the longest entry, and while the lock is held for writing at least the writer's lease. A reader that joins others removes the
-- dead ones among them when it makes the number of all a multiple of sixteen: so they cannot pile up, and most pay nothing.
--
-- A depth above 1 is a re-entry: it never takes a lock anew that was lost meanwhile.
--
-- A client that also waits to write stands in the queue, and may be given the lock. If the first
-- who waits there wants to read, the client reads, and all who want to read are told.
--
-- KEYS[1]     lock     hash {mode: read or write, reader: depth, writer: depth}
-- KEYS[2..n]  entry    string "1", one for each entry up to *depth*
-- ARGV[1]     lease    integer > 0, milliseconds
-- ARGV[2]     holder   string, "<client id>:<number>"
-- ARGV[3]     depth    integer > 0, the depth to reach: sending it twice changes nothing
-- ARGV[4]     writer   string, the field of the same owner's write hold; empty when it has none
-- ARGV[5]     prefix   string, what the key of every reader's entry begins with
-- ARGV[6]     client   string, the client id: it waits in the queue; may be left out
-- ARGV[7]     queue    string, a zset {client: when it came, in ms}; may be left out
-- ARGV[8]     more     1: others of the client wait, so it stays there; may be left out
-- ARGV[9]     keep     integer > 0, milliseconds that the queue is kept; may be left out
-- ARGV[10]    publish  string, PUBLISH or SPUBLISH; may be left out
-- ARGV[11]    channel  string, where waiters listen; may be left out
--
-- Returns  nil when held; else what is left of the other's lease, milliseconds (-1: never ends, -2: a re-entry found no lock)
-- Source   RedissonReadLock.tryLockInnerAsync, Redisson 4.7.0; never shortens another's lease, and removes the dead
-- Wire     the hash, the entries and their TTLs; "01" on the
--          channel when a claim is read from; this text is our own
local lock, entries, lease, holder, depth, writer, prefix = KEYS[1], KEYS, tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local client, queue, more, keep = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local publish, channel = ARGV[10], ARGV[11]
local NOW_AND_THEN = 16

-- include: stand_in_queue

-- include: longest_of_others

local mode, held, written = unpack(redis.call('hmget', lock, 'mode', holder, writer))
local left = redis.call('pttl', lock)
local open = not mode and left == -2 or mode == 'read' or mode == 'write' and written
local claimed = false
if client and not held and depth == 1 then
  if not open then
    -- The claim of the client is the only holder: the lock is free without it.
    claimed = redis.pcall('hdel', lock, client .. ':0:write') == 1
  elseif not mode and redis.pcall('exists', queue) == 1
    and redis.pcall('zscore', queue, client) == false and stand_in_queue() then
    -- The lock is left to others for a moment, or the first one did not take it. The client waits.
    return 20
  end
end
if claimed then
  mode, left, open = nil, -2, true
end
if not held and (depth > 1 or not open) then
  if client then
    stand_in_queue()
  end
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
-- An owner that writes does not wait: the place is another's.
if client and mode ~= 'write' then
  redis.pcall('zrem', queue, client)
  if more == '1' then
    stand_in_queue()
  end
  if claimed then
    redis.pcall(publish, channel, '01')
  end
end
return nil
