-- semaphore_leave: leave the queue, and wake the next clients for the permits that are free.
--
-- The client may have been woken for these permits.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  queue      zset {client: when it came, in ms}; may be left out
-- ARGV[1]  me         string, "<client id>" or "<client id>::<permits>"; "-" only looks: who does
--                     not listen any more leaves the queue, and free permits go to the next clients
-- ARGV[2]  channel    string, where waiters listen
--
-- Returns  3 when another client in the queue was told that it is next, or when to look; else 1
-- Source   our own
-- Wire     messages as those of a release
local semaphore, queue, me, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[2]

-- include: members

-- include: microseconds

-- include: grant

-- include: share

-- include: tidy

local looks, stood = me == '-', 0
if not looks then
  stood = queue and redis.pcall('zrem', queue, me, '+' .. me) or 0
elseif queue then
  local first = redis.pcall('zrange', queue, '0', '0')[1]
  tidy(first and claimed_by(first))
end
local free = tonumber(redis.call('get', semaphore) or 0)
if not free or free <= 0 or (stood == 0 and not looks) then
  return 1
end
if queue and redis.pcall('exists', queue) == 1 then
  return share(free) and 3 or 1
end
if not looks then
  redis.call(PUBLISH, channel, free)
end
return 1
