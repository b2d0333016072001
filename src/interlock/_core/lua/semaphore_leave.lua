-- semaphore_leave: leave the queue, and tell the others if permits are free.
--
-- The client may have been woken for these permits.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  queue      zset {client: when it came, in ms}; may be left out
-- ARGV[1]  me         string, "<client id>" or "<client id>:<permits>"; "-" only looks: who does
--                     not listen any more leaves the queue, and free permits go to the next clients
-- ARGV[2]  channel    string, where waiters listen
--
-- Returns  3 when another client in the queue was told that it is next, else 1
-- Source   our own
-- Wire     the number on the channel, if permits are free and the client stood in the queue.
--          Messages of a look are those of a release
local semaphore, queue, me, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local name = string.match(channel, ':.*')

-- include: read_member

-- include: serve

-- include: share

-- include: tidy_permits

local stood = me ~= '-' and queue and redis.pcall('zrem', queue, me, '+' .. me) or 0
local free = tonumber(redis.call('get', semaphore) or 0)
if me == '-' and queue then
  local first = redis.pcall('zrange', queue, '0', '0')[1]
  tidy(first and claimed_by(first))
  if free and free > 0 and redis.pcall('exists', queue) == 1 then
    return share(free) and 3 or 1
  end
end
if stood ~= 0 and free and free > 0 then
  redis.call(PUBLISH, channel, free)
end
return 1
