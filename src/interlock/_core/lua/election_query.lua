-- election_query: tell who leads.
--
-- Whoever was granted the election and has not asked yet does not lead: nobody has announced that.
--
-- KEYS     election, leader
-- Returns  nil when nobody leads; else {PTTL in milliseconds, holder, token, candidate, host, pid, since}
-- Source   the record of Kubernetes' leader election

local known = redis.call('hmget', leader, 'holder', 'token', 'candidate', 'host', 'pid', 'since')
if not known[1] or redis.call('hexists', election, known[1]) == 0 then
  return nil
end
return {redis.call('pttl', election), unpack(known)}
