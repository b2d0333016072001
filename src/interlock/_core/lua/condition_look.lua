-- condition_look: keep the condition, and tell who of a client's waiters stands there no longer.
--
-- KEYS     condition
-- ARGV     member...
-- Returns  the places of those among the members, from 0, who were notified, or have lost their place
local gone = {}
for i = 1, #ARGV do
  if not redis.call('zscore', condition, ARGV[i]) then
    gone[#gone + 1] = i - 1
  end
end
redis.call('pexpire', condition, '60000')
return gone
