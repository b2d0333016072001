-- fenced_lock_acquire: reach *depth* on a free or own lock and draw a token when it was free.
--
-- A re-entry, or the same script sent again, keeps the token of the first entry: nobody else draws
-- one meanwhile. A depth above 1 does not take the lock again if it was lost meanwhile.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  token    string, the last token that was drawn; no TTL
-- KEYS[3]  queue    zset {client, or holder and ":token": when it came, in ms}; may be left out,
--                   with all about it
-- ARGV[1]  lease    integer > 0, milliseconds
-- ARGV[2]  holder   string, "<client id>:<number>"
-- ARGV[3]  depth    integer > 0, the depth to reach: sending it twice changes nothing
-- ARGV[4]  floor    integer >= 0, the largest token that this client knows may have been drawn: a
--                   counter that went back goes on from there
-- ARGV[5]  unit     integer >= 0, tokens are larger than the node's epoch times this; 0: no cluster
-- ARGV[6]  client   string, the client id: it waits in the queue; may be left out
-- ARGV[7]  others_wait  1: others of the client wait, so it stays in the queue; may be left out
-- ARGV[8]  keep     integer > 0, milliseconds that the queue is kept; may be left out
-- ARGV[9]  starts   1: the client waits in the name of *holder*, which a release may make the next
--                   holder; may be left out
--
-- Returns  {1, token, source} when held, where source tells what the token follows: 'epoch',
--          'clock' (microseconds; the node tells no epoch) or 'counter'; else {0, what is left of
--          the other's lease in milliseconds (-1: never ends, -2: a re-entry found no lock)};
--          {0, 20} if a free lock is left to others. With *starts*, the server's time follows, in
--          microseconds, as a string
-- Source   RFencedLock.tryLockAndGetToken, Redisson 4.7.0, which draws a new token for each
--          re-entry too
-- Wire     the hash, its TTL, and the counter; this code is our own
local lock, counter, queue = KEYS[1], KEYS[2], KEYS[3]
local lease, holder, depth = ARGV[1], ARGV[2], ARGV[3]
local floor, unit = tonumber(ARGV[4]), tonumber(ARGV[5])
local client, others_wait, keep, starts = ARGV[6], ARGV[7], ARGV[8], ARGV[9]

local free = depth == '1' and redis.call('exists', lock) == 0
local named, side = holder .. ':token', ''
local me = starts and named or client

-- include: draw_token

-- include: join

-- include: join_others

-- include: reach_depth

local token, source
local left = reach_depth(free, function(new)
  token, source = draw_token(new, depth == '1')
end)
if left then
  return {0, left, starts and microseconds() or nil}
end
return {1, token, source}
