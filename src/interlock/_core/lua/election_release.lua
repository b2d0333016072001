-- election_release: do as fenced_release does, and tell the observers when a term ends.
--
-- KEYS[1]  election  hash {holder: 1}; its TTL is the lease
-- KEYS[2]  counter   string, the last token
-- KEYS[3]  queue     zset, as for lock_ask; may be left out
-- ARGV[1]  holder    string, as for lock_ask
-- ARGV[2]  depth     0
-- ARGV[3]  channel   string, by which the queue's channels are called
-- ARGV[4]  how       "", or as for lock_release
-- ARGV[5]  unit      integer >= 0, as for fenced_acquire
-- ARGV[6]  floor     integer >= 0, the largest token that this client knows
-- ARGV[7]  news      string, where observers listen
--
-- Returns  as lock_release
-- Source   our own
-- Wire     ours alone
local lock, counter, queue = KEYS[1], KEYS[2], KEYS[3]
local holder, depth, channel, how = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local unit, floor, news = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]

-- include: draw

if redis.call('hexists', lock, holder) == 1 then
  redis.call(PUBLISH, news, '0') -- whoever looks then finds the term ended: this script is done by then
end

-- include: release
