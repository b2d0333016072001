-- leased_semaphore_leave: leave the queue, and give the permits that are free to the next clients.
--
-- The client may have been given permits that it has not confirmed.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  leases     zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- KEYS[3]  queue      zset {client: when it came, in ms}; may be left out
-- ARGV[1]  me         string, "<client id>::leased:<permits>"; "-" only looks: permits whose lease
--                     or claim has ended go to the next clients, and who does not listen any more
--                     leaves the queue
-- ARGV[2]  channel    string, where waiters listen
-- ARGV[3]  named      string, 32 hex digits: the permit it stands there for; may be left out
--
-- Returns  3 when another client in the queue was told that it is next, or when to look; else 1
-- Source   our own
-- Wire     the number and the zset, if the client had permits that it has not confirmed. Messages
--          as those of a release; "300:leased:<permits>" on a wake channel if a claim was given
--          just now
local semaphore, leases, queue = KEYS[1], KEYS[2], KEYS[3]
local me, channel, named = ARGV[1], ARGV[2], ARGV[3]
local looks = me == '-'
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- include: members

-- include: microseconds

-- include: grant

-- include: share

-- include: raw

-- include: claim_permits

-- include: tidy

local stood, back = 0, redis.call('zremrangebyscore', leases, 0, now)
if not looks then
  local member = me
  local _, _, wish = read_member(me)
  back = back + end_claim(me, wanted_by(wish))
  if named then
    member = string.gsub(me, '::', ':' .. named .. ':', 1)
    back = back + redis.call('zrem', leases, raw(named)) + end_claim(member, 1)
  end
  stood = queue and redis.pcall('zrem', queue, me, '+' .. me, member, '+' .. member)
elseif queue then
  local ends = redis.call('zrange', leases, 0, 0, 'withscores')[2]
  tidy(ends and tonumber(ends) <= now + CLAIM)
end
local free = back > 0 and redis.call('incrby', semaphore, back)
  or tonumber(redis.call('get', semaphore) or 0)
if not free or free <= 0 or (back == 0 and stood == 0 and not looks) then
  return 1
end
if queue and redis.pcall('exists', queue) == 1 then
  return share(free, give, take_back) and 3 or 1
end
if back > 0 or not looks then
  redis.call(PUBLISH, channel, free)
end
return 1
