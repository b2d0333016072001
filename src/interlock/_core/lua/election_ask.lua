-- election_ask: do as fenced_ask does; whoever leads by that is announced in the same step.
--
-- A copy finds its own announcement, and answers with that token, unless a larger one is asked for.
--
-- KEYS[1]   election   hash {holder: 1}; its TTL is the lease
-- KEYS[2]   counter    string, the last token
-- KEYS[3]   leader     hash, who leads or led last: holder, token, source, candidate, host, pid, since
-- KEYS[4]   queue      zset, as for lock_ask; may be left out
-- ARGV[1]   lease      integer > 0, milliseconds
-- ARGV[2]   holder     string, as for lock_ask
-- ARGV[3]   channel    string, by which the queue's channels are called
-- ARGV[4]   unit       integer >= 0, as for fenced_acquire
-- ARGV[5]   floor      integer >= 0, the largest token that this client knows
-- ARGV[6]   candidate  string, what the leader calls itself
-- ARGV[7]   host       string, where it runs
-- ARGV[8]   pid        integer > 0, its process
-- ARGV[9]   news       string, where observers listen
-- ARGV[10]  deaf       as for lock_ask
-- ARGV[11]  former     as for lock_ask
--
-- Returns   as lock_ask
-- Source    our own; the record of Kubernetes' leader election
-- Wire      ours alone: Redisson has no such object
local lock, counter, leader, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease, holder, channel = ARGV[1], ARGV[2], ARGV[3]
local unit, floor = tonumber(ARGV[4]), tonumber(ARGV[5])
local candidate, host, pid, news = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local deaf, former = ARGV[10] or '', ARGV[11]

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
redis.call(PUBLISH, news, '1')
return answer
