-- lock_force_release: free the lock, even if another owner holds it, and tell the waiters.
--
-- A copy that comes after another one was executed does nothing, so it breaks no later hold.
--
-- KEYS[1]  lock     hash {holder: depth}
-- KEYS[2]  request  string, the answer to this call, for copies of it; may be left out, with ttl
-- ARGV[1]  channel  string, where waiters listen
-- ARGV[2]  news     string, where the observers of an election listen, or empty
-- ARGV[3]  ttl      integer > 0, milliseconds that the request is remembered; may be left out
--
-- Returns  1 when it was locked, else 0
-- Source   RLock.forceUnlock, Redisson 4.7.0
-- Wire     the hash, the request, and "0" on the channel; this code is our own
local lock, request, channel, news, ttl = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

local before = request and redis.pcall('get', request)
if type(before) == 'string' then
  return tonumber(before)
end
local locked = redis.call('hlen', lock) > 0 and 1 or 0
redis.call('del', lock)
if request then
  redis.pcall('set', request, locked, 'px', ttl)
end
if locked == 1 then
  if news ~= '' then
    redis.call(PUBLISH, news, '0')
  end
  redis.call(PUBLISH, channel, '0')
end
return locked
