-- election_force_release: end the present term, and tell the candidates and the observers.
--
-- KEYS[1]  election  hash {holder: 1}; its TTL is the lease
-- ARGV[1]  publish   string, PUBLISH, SPUBLISH, or empty for no message
-- ARGV[2]  channel   string, where candidates listen
-- ARGV[3]  news      string, where observers listen
--
-- Returns  1 when somebody led, else 0
-- Source   lock_force_release of interlock
-- Wire     ours alone: Redisson has no such object
local election, publish, channel, news = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

if redis.call('hlen', election) == 0 then
  return 0
end
redis.call('del', election)
if publish ~= '' then
  redis.call(publish, news, '0')
  redis.call(publish, channel, '0')
end
return 1
