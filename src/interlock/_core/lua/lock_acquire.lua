-- lock_acquire: reach *depth* on a free or own lock, or learn how long its holder may keep it.
--
-- A depth above 1 is a re-entry: it never takes a lock anew that was lost meanwhile.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- ARGV[1]  lease    integer > 0, milliseconds
-- ARGV[2]  holder   string, "<client id>:<number>"
-- ARGV[3]  depth    integer > 0, the depth to reach: sending it twice changes nothing
-- ARGV[4]  client   string, the client id: it stands in the queue while it does not hold the lock; may be left out
-- ARGV[5]  queue    string, the key of the queue: a zset {client: place}
-- ARGV[6]  more     1: others of the client wait too, so that it stays in the queue, at its end
-- ARGV[7]  keep     integer > 0, milliseconds that the queue is kept
--
-- Returns  nil when held; else what is left of the other's lease, milliseconds (-1: never ends, -2: a re-entry found no lock)
-- Source   RLock.tryLock, Redisson 4.7.0
-- Wire     the hash and its TTL; this text is our own
local lock, lease, holder, depth = KEYS[1], tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local client, queue, more, keep = ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local function stand_in_queue()
  -- Without the right to it the client hears of a release as everybody does.
  if redis.pcall('zscore', queue, client) == false then
    local last = redis.call('zrange', queue, -1, -1, 'withscores')
    redis.pcall('zadd', queue, math.floor(tonumber(last[2]) or 0) + 1, client)
  end
  redis.pcall('pexpire', queue, keep)
end

local ours = redis.call('hexists', lock, holder) == 1
local free = depth == 1 and redis.call('exists', lock) == 0
if client and not ours and not free then
  -- What was given to the client is its only field: it is free now.
  free = redis.call('hdel', lock, client .. ':0') == 1
end
if not ours and not free then
  if client then
    stand_in_queue()
  end
  return redis.call('pttl', lock)
end
redis.call('hset', lock, holder, depth)
if free or redis.call('pttl', lock) < lease then
  redis.call('pexpire', lock, lease)
end
if client then
  redis.pcall('zrem', queue, client)
  if more == '1' then
    stand_in_queue()
  end
end
return nil
