-- pass_on: tell the first client in *queue* that the lock is its own; return its id. Others are
-- told by '0' and *freed* on *channel*, with *publish*; the names of all channels end in *name*.
-- The caller writes the claim.

-- Those who stand in no queue may take it first, for a while. If they listen, as Java and earlier
-- releases do, that is every other time. If they only look, it is once in two seconds.
local function left_to_others(client, place, they_listen)
  if they_listen and place % 2 == 1 then
    redis.pcall('zadd', queue, place + 0.5, client)
    return true
  end
  local time = redis.pcall('time')
  local period = time[1] and math.floor(time[1] / 2)
  -- Noted by a client without a name, which does not listen: it goes as those do. Then all behind
  -- it came in this period.
  if period and math.floor(place / 2000) < period then
    local noted = redis.pcall('zscore', queue, '')
    if not noted or math.floor((tonumber(noted) or math.huge) / 2000) < period then
      local now = time[1] * 1000 + math.floor(time[2] / 1000)
      return type(redis.pcall('zadd', queue, now, '')) == 'number'
    end
  end
  return false
end

-- It goes to the first client in the queue that listens. If the first 128 died, all are told.
local function pass_on()
  local numsub = publish == 'PUBLISH' and 'numsub' or 'shardnumsub'
  for _ = 1, 128 do
    local client, place = unpack(redis.pcall('zrange', queue, '0', '0', 'withscores'))
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
  return false
end
