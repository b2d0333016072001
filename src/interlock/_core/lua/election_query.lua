-- election_query: tell who leads.
--
-- KEYS[1]  election  hash {holder: 1}; its TTL is the lease
-- KEYS[2]  leader    hash, who leads or led last: holder, token, candidate, host, pid, since
--
-- A client that may take the lock does not lead: its claim is the holder "<client id>:0".
--
-- Returns  nil when nobody leads; else {PTTL in milliseconds, holder}, and once the leader is
--          announced also token, candidate, host, pid, since
-- Source   the record of Kubernetes' leader election
-- Wire     nothing is written; ours alone
local election, leader = KEYS[1], KEYS[2]

local holder = redis.call('hgetall', election)[1]
if not holder or string.find(holder, ':0$') then
  return nil
end
local answer = {redis.call('pttl', election), holder}
if redis.call('hget', leader, 'holder') == holder then
  local known = redis.call('hmget', leader, 'token', 'candidate', 'host', 'pid', 'since')
  for _, value in ipairs(known) do
    answer[#answer + 1] = value
  end
end
return answer
