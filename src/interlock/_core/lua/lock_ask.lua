-- lock_ask: hold a free lock, or find out that it is held already; else stand in its queue.
--
-- Who stands in the queue and finds the lock free gives it to the first. A newcomer only joins: the
-- lock may be left to Java for a moment.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  queue    zset; may be left out: {holder, and "?" if its client cannot listen: when it came, microseconds;
--          negative: when it was granted}
-- ARGV[1]  lease    integer > 0, milliseconds
-- ARGV[2]  holder   string, "<client>:<number>", and "/<ms>" if its lease is below 3 s
-- ARGV[3]  channel  string, where Java listens
-- ARGV[4]  deaf     "?" if the client cannot listen; may be left out
-- ARGV[5]  former   its former place, if its client did not listen for a moment; may be left out
--
-- Returns  {token, source}, both "" without tokens, when held; else what is left of the other's
--          lease in milliseconds (-2: none), the server's time in microseconds, the queue's length,
--          0, the number of a hold of its client that was granted the lock over 0.1 s ago, or "",
--          and its place: when it came. If it has just joined, length and so on are 1, 1, "", place;
--          without a queue 0, 0, "", 0
-- Source   our own
-- Wire     the hash and its TTL
local lock, queue = KEYS[1], KEYS[2]
local lease, holder, channel = ARGV[1], ARGV[2], ARGV[3]
local deaf, former = ARGV[4] or '', ARGV[5]
local draw

-- include: ask
