-- lock_leave: stand in the queue no longer, and pass on what was given to the client or would have been.
--
-- KEYS[1]  lock     hash {holder: depth}
-- ARGV[1]  client   string, the client id
-- ARGV[2]  publish  string, PUBLISH or SPUBLISH
-- ARGV[3]  channel  string, where waiters listen
--
-- Returns  1
-- Source   none: in Redisson nobody stands in a queue
-- Wire     as lock_release; this text is our own
local lock, me, publish, channel = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local name = string.match(channel, ':.*')
local queue = 'interlock_queue' .. name

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

redis.call('zrem', queue, me)
redis.call('hdel', lock, me .. ':0')
if redis.call('exists', lock) == 0 and not pass_on() then
  redis.call(publish, channel, '0')
end
return 1
