-- read_lock_acquire: reach *depth* as a reader, or learn how long the writer may keep the lock.
--
-- Each entry of a reader is a key whose TTL is the entry's lease. A reader without entries has
-- died. The TTL of the lock is that of the longest entry. While the lock is held for writing, the
-- TTL is at least the writer's lease. One reader of seventeen that join others removes the dead
-- ones. So the dead do not pile up, and most readers pay nothing.
--
-- A depth above 1 is a re-entry: it does not take the lock again if it was lost meanwhile. It
-- writes the new entry, and prolongs the first, which is removed last. Those in between may end:
-- with them each entry would take longer than the one before.
--
-- A client that also waits to write stands in the queue, and may be given the lock. If its first
-- waiter wants to read, the claim becomes that reader's, and all who wait to read are told.
--
-- KEYS[1]     lock     hash {mode: read or write, reader: depth, writer: depth}
-- KEYS[2]     entry    string "1", the first entry
-- KEYS[3..n]  other    the queue, a zset {client: when it came, in ms}, if *client* is given; else
--                      string "1", the entry to *depth* if that is not the first; then entries of
--                      others
-- ARGV[1]     lease    integer > 0, milliseconds
-- ARGV[2]     holder   string, "<client id>:<number>"
-- ARGV[3]     depth    integer > 0, the depth to reach: sending it twice changes nothing
-- ARGV[4]     writer   string, the field of the same owner's write hold; empty when it has none
-- ARGV[5]     told     string, the readers whose entries are given; see readers
-- ARGV[6]     client   string, the client id: it waits in the queue; may be left out
-- ARGV[7]     others_wait  1: others of the client wait, so it stays in the queue; may be left out
-- ARGV[8]     keep     integer > 0, milliseconds that the queue is kept; may be left out
-- ARGV[9]     channel  string, where waiters listen; may be left out
--
-- Returns  nil when held; else what is left of the other's lease, milliseconds (-1: never ends, -2:
--          a re-entry found no lock); 20 if a free lock is left to others
-- Source   RedissonReadLock.tryLockInnerAsync, Redisson 4.7.0; never shortens another's
--          lease, and removes the dead
-- Wire     the hash, the entries and their TTLs; "01" on the channel when a claim becomes a
--          reader's; this code is our own
local lock, entry, queue, keys = KEYS[1], KEYS[2], KEYS[3], KEYS
local lease, holder, depth = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local writer, told = ARGV[4], ARGV[5]
local client, others_wait, keep, channel = ARGV[6], ARGV[7], ARGV[8], ARGV[9]

-- include: join

-- include: join_others

-- include: readers

-- include: longest_of_others

-- include: chosen

local mode, held, written = unpack(redis.call('hmget', lock, 'mode', holder, writer))
local left = redis.call('pttl', lock)
local open = not mode and left == -2 or mode == 'read' or mode == 'write' and written
local claimed = false
if client and not held and depth == 1 then
  if not open then
    -- The client's claim is the only holder, so the lock is free without it.
    claimed = redis.pcall('hdel', lock, client .. ':0:write') == 1
  elseif not mode and join_others(client) then
    return COURTESY
  end
end
if claimed then
  mode, left, open = nil, -2, true
end
if not held and (depth > 1 or not open) then
  if client then
    join(client)
  end
  return left
end
local longest
if mode == 'read' and not held and chosen(redis.call('hlen', lock)) then
  longest = longest_of_others()
  if type(longest) == 'table' then
    return longest
  end
end
redis.call('hset', lock, 'mode', mode or 'read', holder, depth)
for i = 2, math.min(depth, 2) + 1 do
  entry = keys[i]
  if not held or redis.call('pttl', entry) < lease then
    redis.call('set', entry, '1', 'px', lease)
  end
end
if longest then
  redis.call('pexpire', lock, math.max(lease, longest))
elseif left < lease then
  redis.call('pexpire', lock, lease)
end
-- An owner that writes did not wait here: the client's place belongs to other waiters.
if client and mode ~= 'write' then
  leave(client)
  if claimed then
    redis.pcall(PUBLISH, channel, '01')
  end
end
return nil
