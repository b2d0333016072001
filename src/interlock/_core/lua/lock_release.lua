-- lock_release: go down to *depth*; at 0 give the lock to the next client, or free it.
--
-- Freeing it tells the waiters.
--
-- The undo of an acquire that was interrupted anywhere is the release to the former depth. The TTL is left alone: an
-- inner release neither shortens nor lengthens what the outer hold was promised.
--
-- A server that is out of memory refuses HSET, but only as a script's first write: hence the HDEL of a field that is
-- never there.
--
-- A lock that is given to a client has the field "<client id>:0", for 250 ms.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- ARGV[1]  holder   string, "<client id>:<number>"
-- ARGV[2]  depth    integer >= 0, the depth to reach: sending it twice changes nothing
-- ARGV[3]  publish  string, PUBLISH, SPUBLISH, or empty for no message
-- ARGV[4]  channel  string, where waiters listen
-- ARGV[5]  leaving  string, the id of a client that leaves the queue; may be left out
--
-- Returns  1 when done, 2 when the holder's own client got it; nil when it is not the holder
-- Source   RLock.unlock, Redisson 4.7.0
-- Wire     the hash, and "0" on the channel when it is freed; this text is our own
local lock, holder, depth, publish, channel = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local leaving = ARGV[5]

if leaving then
  redis.pcall('zrem', 'interlock_queue' .. string.match(channel, ':.*'), leaving)
end
if redis.call('hexists', lock, holder) == 0 then
  -- Who was told to take a free lock in a while, and leaves, must tell the next one.
  if not leaving or redis.call('exists', lock) == 1 then
    return nil
  end
elseif depth ~= '0' then
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
          redis.call(publish, channel, '00')
        end
        return type(redis.pcall(publish, wake, '20')) == 'number'
      end
      if type(redis.pcall(publish, wake, '0')) ~= 'number' then
        return false
      end
      redis.pcall('zrem', queue, client)
      redis.call('hset', lock, client .. ':0', 1)
      redis.call('pexpire', lock, 250)
      return client
    end
    if redis.pcall('zrem', queue, client) ~= 1 then
      return false
    end
  end
end

local next = pass_on()
if not next then
  redis.call(publish, channel, '0')
end
return next == string.match(holder, '^[^:]*') and 2 or 1
