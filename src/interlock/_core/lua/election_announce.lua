-- election_announce: record who leads, and tell the observers; do nothing if the term is over.
--
-- KEYS[1]  election   hash {holder: 1}; its TTL is the lease
-- KEYS[2]  leader     hash, who leads or led last: holder, token, candidate, host, pid, since
-- ARGV[1]  holder     string, "<client id>:<number>", of this term alone
-- ARGV[2]  token      integer > 0, the token of the term
-- ARGV[3]  candidate  string, what the leader calls itself
-- ARGV[4]  host       string, where it runs
-- ARGV[5]  pid        integer > 0, its process
-- ARGV[6]  news       string, where observers listen
--
-- Returns  1 when it leads, else 0
-- Source   the record of Kubernetes' leader election
-- Wire     ours alone: Redisson has no such object
local election, leader, holder, token = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local candidate, host, pid, news = ARGV[3], ARGV[4], ARGV[5], ARGV[6]

if redis.call('hexists', election, holder) == 0 then
  return 0
end
if redis.call('hget', leader, 'holder') ~= holder then
  local since = redis.call('time')[1]
  redis.call('hset', leader, 'holder', holder, 'token', token, 'candidate', candidate)
  redis.call('hset', leader, 'host', host, 'pid', pid, 'since', since)
  redis.call(PUBLISH, news, '1')
end
return 1
