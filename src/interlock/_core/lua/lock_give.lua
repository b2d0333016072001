-- lock_give: make another holder id the holder of a lock; once, however often the call arrives.
--
-- The way back ends the call: a copy of it that comes later does nothing.
--
-- KEYS[1]  lock       hash {holder: depth}; its TTL is the lease
-- KEYS[2]  request    string, the answer to this call, for copies of it; may be left out, with ttl
-- ARGV[1]  holder     string, "<client id>:<number>", which holds the lock at depth 1
-- ARGV[2]  successor  string, "<client id>:<number>", which is to hold it at depth 1
-- ARGV[3]  lease      integer > 0, milliseconds, of the successor
-- ARGV[4]  back       0: the call itself; 1: the way back, with both holders exchanged
-- ARGV[5]  ttl        integer > 0, milliseconds that the request is remembered; may be left out
--
-- Returns  1 when the successor holds it, also when it did before; nil when neither of the two
--          holds the lock
-- Source   none: Redisson has no such thing
-- Wire     the hash and its TTL as lock_acquire leaves them, and the request; this code is our own
local lock, request, holder, successor = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local lease, back, ttl = ARGV[3], ARGV[4], ARGV[5]

local before = request and back == '0' and redis.pcall('get', request)
if type(before) == 'string' then
  return before == '1' and 1 or nil
end
local given = redis.call('hexists', lock, successor)
if given == 1 then
  if redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
  end
elseif redis.call('hexists', lock, holder) == 1 then
  -- In this order: a key that was gone for a moment cannot be made again while its slot moves.
  redis.call('hset', lock, successor, '1')
  redis.call('hdel', lock, holder)
  redis.call('pexpire', lock, lease)
  given = 1
end
if request then
  redis.pcall('set', request, back == '0' and given or 0, 'px', ttl)
end
return given == 1 and 1 or nil
