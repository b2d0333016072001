-- lock_release: go down to *depth*; at 0 free the lock and tell the waiters.
--
-- The undo of an acquire that was interrupted anywhere is the release to the former depth. The TTL is left alone: an
-- inner release neither shortens nor lengthens what the outer hold was promised.
--
-- A server that is out of memory refuses HSET, but only as a script's first write: hence the HDEL of a field that is
-- never there.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- ARGV[1]  holder   string, "<client id>:<number>"
-- ARGV[2]  depth    integer >= 0, the depth to reach: sending it twice changes nothing
-- ARGV[3]  publish  string, PUBLISH, SPUBLISH, or empty for no message
-- ARGV[4]  channel  string, where waiters listen
--
-- Returns  1 when done, 2 when the holder's own client is the next in the queue; nil when this holder does not hold the lock (nothing changed)
-- Source   RLock.unlock, Redisson 4.7.0
-- Wire     the hash, and "0" on the channel when it is freed; this text is our own
local lock, holder, depth, publish, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]

if redis.call('hexists', lock, holder) == 0 then
  return nil
end
if depth > 0 then
  redis.call('hdel', lock, '')
  redis.call('hset', lock, holder, depth)
  return 1
end
redis.call('del', lock)
if publish == '' then
  return 1
end
local name = string.match(channel, ':.*')
local queue = 'interlock_queue' .. name
if redis.pcall('exists', queue) ~= 1 then
  redis.call(publish, channel, '0')
  return 1
end

-- It goes to the first client in the queue that listens.
local function pass_on()
  local numsub = publish == 'PUBLISH' and 'numsub' or 'shardnumsub'
  while true do
    local client, place = unpack(redis.call('zrange', queue, 0, 0, 'withscores'))
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
      -- Others listen too, Java among them: every other time they may take it first.
      if heard[2] > heard[4] and place % 2 == 1 then
        redis.call('zadd', queue, place + 0.5, client)
        redis.call(publish, channel, '00')
        redis.call(publish, wake, '20')
        return true
      end
      if type(redis.pcall(publish, wake, '0')) ~= 'number' then
        return false
      end
      redis.call('zrem', queue, client)
      redis.call('hset', lock, client .. ':0', 1)
      redis.call('pexpire', lock, 250)
      return client
    end
    redis.call('zrem', queue, client)
  end
end

local next = pass_on()
if not next then
  redis.call(publish, channel, '0')
  return 1
end
return next == string.match(holder, '^[^:]*') and 2 or 1
