-- lock_ask: hold a free lock, or find out that it is held already; else stand in its queue.
--
-- KEYS     lock, queue?
-- ARGV     #lease, holder, channel, deaf?, former?
-- Returns  {token, source}, both "" without tokens, when held; else what is left of the other's
--          lease in milliseconds (-2: none), the server's time in microseconds, the queue's length,
--          0, the number of a hold of its client that was granted the lock over 0.1 s ago, or "",
--          and its place: when it came. If it has just joined, length and so on are 1, 1, "", place;
--          without a queue 0, 0, "", 0
-- Wire     the hash and its TTL
local draw

-- include: ask
