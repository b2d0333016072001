-- give_on: give the lock of *holder* to a client in the queue, or free it; return the answer.
--
-- A client gets a claim, which is the field "<client id>:0" and *side*. If it waits in the name of
-- a holder, that holder gets the lock: it may start at once. Its message has the holder's number
-- and the time at which the claim begins. *news_of* is called with the wish of this holder. It
-- returns the end of the message, or nil if the holder cannot have this lock.
--
-- The lock may be left to others for a moment. If others listen, they are told on *channel*, by
-- '0' and *freed*. If *in_order*, it is only left to those who listen. It needs `grant`.
--
-- Two members of the queue are notes. The score of ":turns" is the number of releases while others
-- listened. That of ":left" tells when the lock was last left to clients that only look.

-- The key never goes away in between: while its slot moves, a script cannot make it anew.
local function write(field)
  if side == ':write' then
    redis.call('hset', lock, 'mode', 'write', field, '1')
  else
    redis.call('hset', lock, field, '1')
  end
  redis.call('hdel', lock, holder)
  redis.call('pexpire', lock, CLAIM)
end

local next
local function give(_, client, number, wish)
  local now = number ~= '' and microseconds()
  local news = now and news_of(wish)
  next = client
  write(client .. ':' .. (news and number or '0') .. side)
  return news and '=' .. number .. ':' .. now or '0', news
end

-- Return whether clients outside the queue may take the lock first, for a moment. While some
-- listen, it is every second release. Java listens, and so do clients that wait only to read. If
-- they only look, it is one release in each span of two seconds at most. The first client must have
-- come before that span. If the server refuses a command, the first client gets the lock.
local function left_to_others(place)
  if others_listen then
    return (tonumber(redis.pcall('zadd', queue, 'incr', '1', ':turns')) or 1) % LISTENERS_EVERY == 0
  end
  local now = microseconds() and math.floor(microseconds() / 1000)
  local period = now and math.floor(now / LEFT_EVERY)
  if period and math.floor(place / LEFT_EVERY) < period then
    local noted = redis.pcall('zscore', queue, ':left')
    if not noted or math.floor((tonumber(noted) or math.huge) / LEFT_EVERY) < period then
      return type(redis.pcall('zadd', queue, now, ':left')) == 'number'
    end
  end
  return false
end

local function give_on(in_order)
  local function pause(place)
    if in_order and not others_listen or not left_to_others(place) then
      return 0
    end
    if others_listen then
      redis.call(PUBLISH, channel, '0' .. freed)
    end
    return COURTESY
  end
  local _, _, given = grant(1, nil, give, nil, pause)
  if not given then
    redis.call(PUBLISH, channel, freed)
  end
  if not given or not next then
    redis.call('del', lock)
  end
  if given and next == string.match(holder, '^[^:]*') then
    return 2
  end
  return given and 3 or 1
end
