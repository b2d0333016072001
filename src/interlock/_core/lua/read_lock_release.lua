-- read_lock_release: go down to *depth*; at 0 leave, and free the lock if nobody is left.
--
-- Freeing it tells the waiters.
--
-- A release to the former depth undoes an acquire that was interrupted at any point. If the user
-- lacks the right to a command, the script fails before it frees the lock.
--
-- If the reader that leaves had the longest lease, the TTL becomes the longest of the others', and
-- readers found dead are removed. With more than sixteen readers, one release of seventeen does
-- this. While the owner also writes, the TTL is left alone.
--
-- The last reader gives the lock to the first client in the queue; see write_lock_release.
--
-- KEYS[1]     lock     hash {mode: read or write, reader: depth, writer: depth}
-- KEYS[2]     entry    string "1", the first entry above *depth*
-- KEYS[3..n]  other    string "1", the other entries; the queue, a zset {client: when it came, in
--                      ms}; then entries of others; may be left out
-- ARGV[1]     holder   string, "<client id>:<number>"
-- ARGV[2]     depth    integer >= 0, the depth to reach: sending it twice changes nothing
-- ARGV[3]     told     string, the readers whose entries are given; see readers
-- ARGV[4]     channel  string, where waiters listen
-- ARGV[5]     count    integer > 0, the number of entries
--
-- Returns  as lock_release does; nil when this holder does not read (its entries above *depth* are
--          removed)
-- Source   RedissonReadLock.unlockInnerAsync, Redisson 4.7.0; never shortens the writer's lease
-- Wire     the hash, the entries and the TTL; "0" on the channel when the lock is freed. With
--          clients in the queue, the first one gets a claim for 250 ms instead, and a message on
--          its wake channel as in write_lock_release. If the lock is left to others for a moment,
--          "20" is sent there, and "00" on the channel if others listen; this code is our own
local lock, entry, queue, keys = KEYS[1], KEYS[2], KEYS[3], KEYS
local holder, depth, told = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local channel, count = ARGV[4], tonumber(ARGV[5])
local TICKS = 10 -- milliseconds by which two TTLs may differ that should be equal

-- include: readers

-- include: longest_of_others

-- include: chosen

local entries = {}
for i = 1, count do
  entries[i] = keys[i + 1]
end
queue = own > count + 1 and keys[count + 2]

local function remove_entries(freed)
  for i, each in ipairs(entries) do
    entry = each
    if freed and i == 1 then
      redis.call('del', lock, entry)
    else
      redis.call('del', entry)
    end
  end
end

local mode, held = unpack(redis.call('hmget', lock, 'mode', holder))
if not held then
  -- Another thread may have released the last entry, before this release of an inner one.
  remove_entries()
  return nil
end
if depth > 0 then
  remove_entries()
  redis.call('hset', lock, holder, depth)
  return 1
end
local readers = redis.call('hlen', lock) - 1
local alone = readers == 1
if mode == 'read' and not alone and (readers <= MANY or chosen(readers)) then
  local mine = -2
  for _, each in ipairs(entries) do
    entry = each
    mine = math.max(mine, redis.call('pttl', entry))
  end
  local left = redis.call('pttl', lock)
  if mine + TICKS >= left then
    local longest = longest_of_others()
    if type(longest) == 'table' then
      return longest
    end
    alone = longest == -2
    if longest >= 0 and longest < left - TICKS then
      redis.call('pexpire', lock, math.max(longest, 1))
    end
  end
end
if not alone then
  redis.call('hdel', lock, holder)
  remove_entries()
  return 1
end
local freed, side = '0', ':write'
if not queue or redis.pcall('exists', queue) ~= 1 then
  redis.call(PUBLISH, channel, '0')
  remove_entries(true)
  return 1
end

-- include: writer_next

-- include: members

-- include: microseconds

-- include: grant

-- include: give_on

redis.call('hdel', lock, '')
local answer = give_on()
remove_entries()
return answer
