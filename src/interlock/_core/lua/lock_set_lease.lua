-- lock_set_lease: set a lock's TTL to exactly *lease*, if its holder still holds it.
--
-- The TTL may become shorter. A copy that comes after another one was executed does nothing, so it
-- cannot undo a later call.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  request  string, the answer to this call, for copies of it; may be left out, with ttl
-- ARGV[1]  lease    integer >= 0, milliseconds; 0 changes no lock, and makes all copies do nothing
-- ARGV[2]  holder   string, "<client id>:<number>"
-- ARGV[3]  ttl      integer > 0, milliseconds that the request is remembered; may be left out
--
-- Returns  1 when done; 0 when this holder does not hold the lock (nothing changed)
-- Source   redis-py's Lock.extend with replace_ttl: Redisson can only lengthen a lease
-- Wire     the TTL, and the request; this code is our own
local lock, request, lease, holder, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

local before = request and redis.pcall('get', request)
if type(before) == 'string' then
  return tonumber(before)
end
local done = 0
-- A key of another type is a lost lock: hence pcall.
if lease ~= '0' and redis.pcall('hexists', lock, holder) == 1 then
  redis.call('pexpire', lock, lease)
  done = 1
end
if request then
  redis.pcall('set', request, done, 'px', ttl)
end
return done
