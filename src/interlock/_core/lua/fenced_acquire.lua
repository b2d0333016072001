-- fenced_acquire: reach *depth* on a free or own lock and draw a token when it was free.
--
-- A re-entry, or the same script sent again, keeps the token of the first entry: nobody else draws
-- one meanwhile. A depth above 1 does not take the lock again if it was lost meanwhile.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  counter  string, the last token that was drawn; no TTL
-- ARGV[1]  lease    integer > 0, milliseconds
-- ARGV[2]  holder   string, as for lock_acquire
-- ARGV[3]  depth    integer > 0, the depth to reach: sending it twice changes nothing
-- ARGV[4]  floor    integer >= 0, the largest token that this client knows may have been drawn: a
--                   counter that went back goes on from there
-- ARGV[5]  unit     integer >= 0, tokens are larger than the node's epoch times this; 0: no cluster
--
-- Returns  {1, token, source} when held, where source tells what the token follows: 'epoch',
--          'clock' (microseconds; the node tells no epoch) or 'counter'; else {0, what is left of
--          the other's lease in milliseconds (-1: never ends, -2: a re-entry found no lock)}
-- Source   RFencedLock.tryLockAndGetToken, Redisson 4.7.0, which draws a new token for each
--          re-entry too
-- Wire     the hash, its TTL, and the counter; this code is our own
local lock, counter, lease, holder, depth = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local floor, unit = tonumber(ARGV[4]), tonumber(ARGV[5])

-- include: draw_token

local free = depth == '1' and redis.call('exists', lock) == 0
if not free and redis.call('hexists', lock, holder) == 0 then
  return {0, redis.call('pttl', lock)}
end
local token, source = draw_token(free, depth == '1')
redis.call('hset', lock, holder, depth)
if free or redis.call('pttl', lock) < tonumber(lease) then
  redis.call('pexpire', lock, lease)
end
return {1, token, source}
