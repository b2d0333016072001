-- pass_on: tell the first client in *queue* that the lock is its own, and return the client's id.
--
-- If the client waits in the name of a holder, *give* makes that holder the next one for 250 ms. It
-- gets the client's id with the number of the holder, and the wish. Then it returns the end of the
-- message, or nil if it cannot give that. The result is the member of the queue. The message has
-- the holder's number and the time at which the claim begins. The client may start at once, so the
-- message comes last. For all other clients the caller writes the claim.
--
-- The result true means that the lock was left to others for a moment: if others listen, they were
-- told on *channel*, by '0' and *freed*. If *in_order*, it is only left to those who listen. The
-- result false means that the caller must tell all. It needs `members` and `microseconds`.
--
-- Two members of the queue begin with a colon, and are notes. The score of ":turns" is the number
-- of releases while others listened. That of ":left" tells when the lock was last left to clients
-- that only look. If only notes are left, the queue is removed: other scripts ask only whether
-- there is one.

-- Return the first client in *queue*, and its place.
local function first_client()
  local found = redis.pcall('zrange', queue, '0', '2', 'withscores')
  for i = 1, #found, 2 do
    if string.sub(found[i], 1, 1) ~= ':' then
      return found[i], tonumber(found[i + 1])
    end
  end
  if found[1] then
    redis.pcall('del', queue)
  end
end

-- Return whether clients outside the queue may take the lock first, for a moment. While some
-- listen, it is every second release. Java listens, and so do clients that wait only to read. If
-- they only look, it is one release in each span of two seconds at most. The first client must have
-- come before that span. If the server refuses a command, the first client gets the lock.
local function left_to_others(place, they_listen)
  if they_listen then
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

-- The lock goes to the first client in the queue that listens. If none of the first 128 listens,
-- all are told.
local function pass_on(give, in_order)
  for _ = 1, LOOKS_AT do
    local member, place = first_client()
    if not member then
      return false
    end
    local client, number, wish = read_member(member)
    -- PUBSUB NUMSUB does not count pattern subscribers. They do not compete for the lock.
    local heard = redis.pcall('pubsub', NUMSUB, channel, waiting, wake .. client)
    if heard.err then
      return false
    end
    if heard[6] > 0 then
      local they_listen = heard[2] > heard[4]
      if (they_listen or not in_order) and left_to_others(place, they_listen) then
        if they_listen then
          redis.call(PUBLISH, channel, '0' .. freed)
        end
        return send(member, COURTESY)
      end
      local now = number ~= '' and microseconds()
      local news = now and give(client .. ':' .. number, wish)
      if not send(member, news and '=' .. number .. ':' .. now or '0', news) then
        return false
      end
      redis.pcall('zrem', queue, member)
      return news and member or client
    end
    if redis.pcall('zrem', queue, member) ~= 1 then
      return false
    end
  end
  return false
end
