-- election_ask: do as fenced_ask does; whoever leads by that is announced in the same step.
--
-- A copy finds its own announcement, and answers with that token, unless a larger one is asked for.
--
-- KEYS     lock, counter, leader, queue?
-- ARGV     #lease, holder, channel, #unit, #floor, candidate, host, pid, news, deaf?, former?
-- Source   our own; the record of Kubernetes' leader election

-- include: draw

local function ask()
  -- include: ask
end

local answer = ask()
if #answer > 2 then
  return answer
end
local known = redis.call('hmget', leader, 'holder', 'token', 'source')
if known[1] == holder and tonumber(known[2]) > floor then
  return {tonumber(known[2]), known[3]}
end
local since = redis.call('time')[1]
redis.call('hset', leader, 'holder', holder, 'token', string.format('%.0f', answer[1]), 'source', answer[2])
redis.call('hset', leader, 'candidate', candidate, 'host', host, 'pid', pid, 'since', since)
redis.pcall(PUBLISH, news, '1')
return answer
