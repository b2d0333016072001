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

local function longest_of_others(enough)
  local longest, fields = -2, redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    local reader, left = fields[i], -2
    if reader ~= holder and reader ~= 'mode' and longest < enough then
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

-- Those who stand in no queue may take it first, for a while. If they listen, as Java and earlier
-- releases do, that is every other time. If they only look, it is once in two seconds.
local function left_to_others(client, place, they_listen)
  if they_listen and place % 2 == 1 then
    redis.pcall('zadd', queue, place + 0.5, client)
    return true
  end
  local last, time = redis.pcall('zrange', queue, -1, -1, 'withscores'), redis.pcall('time')
  local came = tonumber(last[2])
  if came and time[1] and math.floor(came / 2000) < math.floor(time[1] / 2) then
    -- Noted by a client without a name, which does not listen: it goes as those do.
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    return type(redis.pcall('zadd', queue, now, '')) == 'number'
  end
  return false
end

-- It goes to the first client in the queue that listens.
local function pass_on()
  local numsub = publish == 'PUBLISH' and 'numsub' or 'shardnumsub'
  while true do
    local client, place = unpack(redis.pcall('zrange', queue, 0, 0, 'withscores'))
    if not client then
      return false
    end
    local wake = 'interlock_wake' .. name .. ':' .. client
    -- Pattern subscribers are not counted: they compete for nothing.
    local heard = redis.pcall('pubsub', numsub, channel, 'interlock_waiting' .. name, wake)
    if heard.err then
      return false
    end
    if heard[6] > 0 then
      local they_listen = heard[2] > heard[4]
      if left_to_others(client, tonumber(place), they_listen) then
        if they_listen then
          redis.call(publish, channel, '0' .. freed)
        end
        return type(redis.pcall(publish, wake, '20')) == 'number'
      end
      if type(redis.pcall(publish, wake, '0')) ~= 'number' then
        return false
      end
      redis.pcall('zrem', queue, client)
      return client
    end
    if redis.pcall('zrem', queue, client) ~= 1 then
      return false
    end
  end
end

redis.call('hdel', lock, '')
local next = pass_on()
if not next then
  redis.call(publish, channel, '0')
end
redis.call('del', unpack(entries))
if type(next) == 'string' then
  redis.call('hset', lock, 'mode', 'write', next .. ':0:write', 1)
  redis.call('pexpire', lock, 250)
end
return 1
