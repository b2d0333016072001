-- fenced_ask: do as lock_ask does, for a lock with tokens.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  counter  string, the last token
-- KEYS[3]  queue    zset, as for lock_ask; may be left out
-- ARGV[1]  lease    integer > 0, milliseconds
-- ARGV[2]  holder   string, as for lock_ask
-- ARGV[3]  channel  string, where Java listens
-- ARGV[4]  unit     integer >= 0, as for fenced_acquire
-- ARGV[5]  floor    integer >= 0, the largest token that this client knows
-- ARGV[6]  deaf     as for lock_ask
-- ARGV[7]  former   as for lock_ask
--
-- Returns  as lock_ask
-- Source   our own
-- Wire     the hash, its TTL, and the counter
local lock, counter, queue = KEYS[1], KEYS[2], KEYS[3]
local lease, holder, channel = ARGV[1], ARGV[2], ARGV[3]
local unit, floor = tonumber(ARGV[4]), tonumber(ARGV[5])
local deaf, former = ARGV[6] or '', ARGV[7]

-- include: draw

-- include: ask
