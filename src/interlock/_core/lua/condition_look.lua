-- condition_look: keep the condition, and tell who of a client's waiters stands there no longer.
--
-- KEYS[1]     condition  zset, as for condition_wait
-- ARGV[1..n]  member     string, as for condition_wait
--
-- Returns  the places of those among the members, from 0, who were notified, or have lost their place
-- Source   our own
-- Wire     ours alone: Redisson has no such object
local condition, gone = KEYS[1], {}
for i = 1, #ARGV do
  if not redis.call('zscore', condition, ARGV[i]) then
    gone[#gone + 1] = i - 1
  end
end
redis.call('pexpire', condition, '60000')
return gone
