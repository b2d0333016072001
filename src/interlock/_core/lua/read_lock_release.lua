-- read_lock_release: go down to *depth*; at 0 leave, and if nobody else is left free the lock and tell the waiters.
--
-- The undo of an acquire that was interrupted anywhere is the release to the former depth. When the one who leaves had the
-- longest lease, the lock's TTL becomes the longest of the others', and those that are found to be dead are removed: each time
-- while the readers are few, else only when their number is a multiple of sixteen. While its owner also writes, the TTL is left alone.
-- What a user may not do fails before the lock is freed.
--
-- The last reader gives the lock to the first client in the queue; see write_lock_release.
--
-- KEYS[1]     lock     hash {mode: read or write, reader: depth, writer: depth}
-- KEYS[2..n]  entry    string "1", one for each entry above *depth*
-- ARGV[1]     holder   string, "<client id>:<number>"
-- ARGV[2]     depth    integer >= 0, the depth to reach: sending it twice changes nothing
-- ARGV[3]     prefix   string, what the key of every reader's entry begins with
-- ARGV[4]     publish  string, PUBLISH, SPUBLISH, or empty for no message
-- ARGV[5]     channel  string, where waiters listen
--
-- Returns  1 when done, nil when this holder does not read (it has no entries then)
-- Source   RedissonReadLock.unlockInnerAsync, Redisson 4.7.0; never shortens the writer's lease
-- Wire     the hash, the entries and the TTL; "0" on the channel when the lock is freed; "00" if
--          those in the queue need not look; this text is our own
local lock, entries, holder, depth, prefix, publish, channel = KEYS[1], KEYS, ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5]
local NOW_AND_THEN = 16
local TICKS = 10 -- milliseconds by which TTLs may differ that were meant to be the same

-- include: longest_of_others

local mode, held = unpack(redis.call('hmget', lock, 'mode', holder))
if not held then
  -- A thread's release of the last entry may have come before another's of an inner one, which is this.
  redis.call('del', unpack(entries, 2))
  return nil
end
if depth > 0 then
  redis.call('del', unpack(entries, 2))
  redis.call('hset', lock, holder, depth)
  return 1
end
local readers = redis.call('hlen', lock) - 1
local alone = readers == 1
if mode == 'read' and not alone and (readers <= NOW_AND_THEN or readers % NOW_AND_THEN == 0) then
  local mine = -2
  for i = 2, #entries do
    mine = math.max(mine, redis.call('pttl', entries[i]))
  end
  local left = redis.call('pttl', lock)
  if mine + TICKS >= left then
    -- Never less than 0: whether anybody is left at all has to be seen in any case.
    local longest = longest_of_others(math.max(left - TICKS, 0))
    alone = longest == -2
    if longest >= 0 and longest < left - TICKS then
      redis.call('pexpire', lock, math.max(longest, 1))
    end
  end
end
if not alone then
  redis.call('hdel', lock, holder)
  redis.call('del', unpack(entries, 2))
  return 1
end
local freed = '0'
local name = string.match(channel, ':.*')
local queue = 'interlock_queue' .. name
if publish == '' or redis.pcall('exists', queue) ~= 1 then
  if publish ~= '' then
    redis.call(publish, channel, '0')
  end
  redis.call('del', unpack(entries))
  return 1
end

-- include: pass_on

redis.call('hdel', lock, '')
local next = pass_on()
if not next then
  redis.call(publish, channel, '0')
end
redis.call('del', unpack(entries))
if type(next) == 'string' then
  redis.call('hset', lock, 'mode', 'write', next .. ':0:write', '1')
  redis.call('pexpire', lock, '250')
end
return 1
