-- join: how *client* comes into *queue*, and leaves it when it has what it waited for.
--
-- The queue is kept for *keep* milliseconds. A client without the rights to the queue gets no
-- place, and hears the messages for all. So does a client that could not leave the queue again.
-- Numbers that are only passed on are sent as strings: the server takes long to turn a number into
-- one.

-- include: microseconds

-- Put *member* at the end of the queue, unless it is there; return whether it stands there now.
local function join(member)
  if type(redis.pcall('zrem', queue, '-')) ~= 'number' then
    return false
  end
  local last = redis.pcall('zrange', queue, '-1', '-1', 'withscores')
  local now = string.sub(microseconds() or '000000', 1, -4)
  if last[2] and tonumber(last[2]) >= tonumber(now) then
    now = math.floor(last[2]) + 1
  end
  local stands = redis.pcall('zadd', queue, 'nx', now, member)
  -- The TTL never becomes shorter: other clients may look less often.
  local left = redis.pcall('pttl', queue)
  if type(left) ~= 'number' or left < 0.8 * keep then
    redis.pcall('pexpire', queue, keep)
  end
  return type(stands) == 'number'
end

-- Leave the queue, also as *named*, or go to its end for others of the client that wait.
local function leave(named)
  redis.pcall('zrem', queue, client, named)
  if others_wait == '1' then
    join(client)
  end
end
