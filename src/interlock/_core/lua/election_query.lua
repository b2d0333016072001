-- election_query: tell who leads.
--
-- Whoever was granted the election and has not asked yet does not lead: nobody has announced that.
--
-- KEYS[1]  election  hash {holder: 1}; its TTL is the lease
-- KEYS[2]  leader    hash, who leads or led last, as for election_ask
--
-- Returns  nil when nobody leads; else {PTTL in milliseconds, holder, token, candidate, host, pid, since}
-- Source   the record of Kubernetes' leader election
-- Wire     nothing is written; ours alone
local election, leader = KEYS[1], KEYS[2]

local known = redis.call('hmget', leader, 'holder', 'token', 'candidate', 'host', 'pid', 'since')
if not known[1] or redis.call('hexists', election, known[1]) == 0 then
  return nil
end
return {redis.call('pttl', election), unpack(known)}
