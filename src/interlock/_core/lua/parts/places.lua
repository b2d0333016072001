-- places (part): the time, the channels of a queue, who listens, and how a client loses its places.
local time = redis.call('time')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local GRANT, KEEP = 3000, 10000 -- milliseconds that a grant lasts, and that a queue is kept
-- They are called like the queue.
local waiting = (string.gsub(queue or '', '_queue', '_waiting', 1))
local wakes = (string.gsub(queue or '', '_queue', '_wake', 1)) .. ':'

-- Take all places from *client*, which did not release in time; if it lives, it joins again.
local function forget(client)
  local all = redis.call('zrange', queue, '0', '-1')
  for i = 1, #all do
    if string.sub(all[i], 1, #client + 1) == client .. ':' then
      redis.call('zrem', queue, all[i])
    end
  end
  redis.pcall(PUBLISH, wakes .. client, '')
end

-- Return true if *member* can be let in, false if its client does not listen, and nil if that cannot
-- be asked, or this client cannot tell it anything.
local heard = {} -- by client: whether it listens; 'unknown' if the question is refused
local others = false -- whether somebody listens who stands in no queue: Java
local function reachable(member, client)
  if heard[client] == nil then
    local counts = redis.pcall('pubsub', NUMSUB, channel, waiting, wakes .. client)
    others = not counts.err and counts[2] > counts[4]
    heard[client] = counts.err and 'unknown' or counts[6] > 0
  end
  if string.sub(member, -1) == '?' then
    return true
  end
  if heard[client] == 'unknown' or MUTE then
    return nil
  end
  return heard[client]
end
