-- fenced_lock_acquire: reach *depth* on a free or own lock and draw a token when it was free.
--
-- A re-entry, or the same script sent again, keeps the token of the first entry: nobody else draws one meanwhile. A depth
-- above 1 never takes a lock anew.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  token    string, the last token that was drawn; no TTL
-- ARGV[1]  lease    integer > 0, milliseconds
-- ARGV[2]  holder   string, "<client id>:<number>"
-- ARGV[3]  depth    integer > 0, the depth to reach: sending it twice changes nothing
-- ARGV[4]  floor    integer >= 0, the largest token that may have been drawn as far as this client knows: a counter that went back goes on from there
-- ARGV[5]  client   string, the client id: it stands in the queue while it does not hold the lock; may be left out
-- ARGV[6]  queue    string, the key of the queue: a zset {client: place}
-- ARGV[7]  more     1: others of the client wait too, so that it stays in the queue, at its end
-- ARGV[8]  keep     integer > 0, milliseconds that the queue is kept
--
-- Returns  {1, token} when held; else {0, what is left of the other's lease in milliseconds (-1: never ends, -2: a re-entry found no lock)}
-- Source   RFencedLock.tryLockAndGetToken, Redisson 4.7.0, which draws a new token for each re-entry too
-- Wire     the hash, its TTL, and the counter; this text is our own
local lock, counter, lease, holder, depth = KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local floor = tonumber(ARGV[4])
local client, queue, more, keep = ARGV[5], ARGV[6], ARGV[7], ARGV[8]

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
  return {0, redis.call('pttl', lock)}
end
local token = redis.call('get', counter)
if free or not token then
  local last = tonumber(token) or 0
  token = redis.call('incrby', counter, math.max(last, floor) - last + 1)
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
return {1, tonumber(token)}
