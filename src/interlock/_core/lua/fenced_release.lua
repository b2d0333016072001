-- fenced_release: do as lock_release does; it draws the token of the next holder.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  counter  string, the last token
-- KEYS[3]  queue    zset, as for lock_ask; may be left out
-- ARGV[1]  holder   string, as for lock_ask
-- ARGV[2]  depth    integer >= 0, the depth to reach
-- ARGV[3]  channel  string, where Java listens
-- ARGV[4]  how      "", or as for lock_release
-- ARGV[5]  unit     integer >= 0, as for fenced_acquire
-- ARGV[6]  floor    integer >= 0, the largest token that this client knows
--
-- Returns  as lock_release
-- Source   RLock.unlock, Redisson 4.7.0
-- Wire     as lock_release, and the counter
local lock, counter, queue = KEYS[1], KEYS[2], KEYS[3]
local holder, depth, channel, how = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local unit, floor = tonumber(ARGV[5]), tonumber(ARGV[6])

-- include: draw

-- include: release
