-- lock_force_release: free the lock, even if another owner holds it, and tell the waiters.
--
-- KEYS[1]  lock     hash {holder: depth}
-- ARGV[1]  channel  string, where waiters listen
-- ARGV[2]  news     string, where the observers of an election listen; may be left out
--
-- Returns  1 when it was locked, else 0
-- Source   RLock.forceUnlock, Redisson 4.7.0
-- Wire     the hash, and "0" on the channel; this code is our own
local lock, channel, news = KEYS[1], ARGV[1], ARGV[2]

if redis.call('hlen', lock) == 0 then
  return 0
end
redis.call('del', lock)
if news then
  redis.call(PUBLISH, news, '0')
end
redis.call(PUBLISH, channel, '0')
return 1
