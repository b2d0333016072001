-- fenced_lock_acquire: reach *depth* on a free or own lock and draw a token when it was free.
--
-- A re-entry, or the same script sent again, keeps the token of the first entry: nobody else draws
-- one meanwhile. A depth above 1 does not take the lock again if it was lost meanwhile.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  token    string, the last token that was drawn; no TTL
-- KEYS[3]  queue    zset {client: when it came, in ms}; may be left out, with all about it
-- ARGV[1]  lease    integer > 0, milliseconds
-- ARGV[2]  holder   string, "<client id>:<number>"
-- ARGV[3]  depth    integer > 0, the depth to reach: sending it twice changes nothing
-- ARGV[4]  floor    integer >= 0, the largest token that this client knows may have been drawn: a
--                   counter that went back goes on from there
-- ARGV[5]  unit     integer >= 0, tokens are larger than the node's epoch times this; 0: no cluster
-- ARGV[6]  client   string, the client id: it waits in the queue; may be left out
-- ARGV[7]  others_wait  1: others of the client wait, so it stays in the queue; may be left out
-- ARGV[8]  keep     integer > 0, milliseconds that the queue is kept; may be left out
--
-- Returns  {1, token, source} when held, where source tells what the token follows: 'epoch',
--          'clock' (microseconds; the node tells no epoch) or 'counter'; else {0, what is left of
--          the other's lease in milliseconds (-1: never ends, -2: a re-entry found no lock)};
--          {0, 20} if a free lock is left to others
-- Source   RFencedLock.tryLockAndGetToken, Redisson 4.7.0, which draws a new token for each
--          re-entry too
-- Wire     the hash, its TTL, and the counter; this code is our own
local lock, counter, queue = KEYS[1], KEYS[2], KEYS[3]
local lease, holder, depth = ARGV[1], ARGV[2], ARGV[3]
local floor, unit = tonumber(ARGV[4]), tonumber(ARGV[5])
local client, others_wait, keep = ARGV[6], ARGV[7], ARGV[8]

-- include: stand_in_queue

local free = depth == '1' and redis.call('exists', lock) == 0
local ours = not free and redis.call('hexists', lock, holder) == 1
-- The client's claim is the only field, so the lock is free without it.
local claimed = client and not free and not ours
  and redis.pcall('hexists', lock, client .. ':0') == 1
if claimed then
  free = true
elseif client and free and redis.pcall('exists', queue) == 1
  and redis.pcall('zscore', queue, client) == false and stand_in_queue(client) then
  -- A free lock with a queue: it was left to others for a moment, or the first client did not take
  -- it. This client joins the queue.
  return {0, COURTESY}
end
if not ours and not free then
  if client then
    stand_in_queue(client)
  end
  return {0, redis.call('pttl', lock)}
end
local token, source = redis.call('get', counter), 'counter'
local last = tonumber(token) or 0
-- A first acquire that is sent again draws nothing, but tells the source.
if unit > 0 and (depth == '1' or not token) then
  local info = redis.pcall('cluster', 'info')
  local refused = info.err or ''
  if string.find(refused, 'permission') or string.find(refused, 'user executing') then
    return redis.call('cluster', 'info')  -- the user has too few rights: that can be mended
  end
  local epoch = type(info) == 'string' and string.match(info, 'cluster_my_epoch:(%d+)')
  -- Dragonfly always tells 1 and 1. A cluster with true epochs may do so, too, and fail over: then
  -- its nodes have sent pings. Tokens of its next epochs would be below those of a clock.
  local constant = epoch == '1' and string.find(info, 'cluster_current_epoch:1%s')
    and not string.find(info, 'ping_sent:')
  if epoch and not constant and last < (tonumber(epoch) + 1) * unit then
    floor, source = math.max(floor, tonumber(epoch) * unit), 'epoch'
  else
    local time = redis.pcall('time')
    if time[1] then
      floor, source = math.max(floor, time[1] * 1000000 + time[2]), 'clock'
    end
  end
end
if free or not token then
  token = redis.call('incrby', counter, math.max(last, floor) - last + 1)
end
redis.call('hset', lock, holder, depth)
if claimed then
  -- Last: a key that was gone for a moment cannot be made again while its slot moves.
  redis.pcall('hdel', lock, client .. ':0')
end
if free or redis.call('pttl', lock) < tonumber(lease) then
  redis.call('pexpire', lock, lease)
end
if client then
  redis.pcall('zrem', queue, client)
  if others_wait == '1' then
    stand_in_queue(client)
  end
end
return {1, tonumber(token), source}
