-- election_release: end a term, and tell the candidates and the observers.
--
-- KEYS[1]  election  hash {holder: 1}; its TTL is the lease
-- ARGV[1]  holder    string, "<client id>:<number>"
-- ARGV[2]  channel   string, where candidates listen
-- ARGV[3]  news      string, where observers listen
--
-- Returns  1 when done; nil when this holder does not lead (nothing changed)
-- Source   lock_release of interlock
-- Wire     ours alone: Redisson has no such object
local election, holder, channel, news = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if redis.call('hexists', election, holder) == 0 then
  return nil
end
redis.call('del', election)
redis.call(PUBLISH, news, '0')
redis.call(PUBLISH, channel, '0')
return 1
