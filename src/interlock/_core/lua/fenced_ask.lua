-- fenced_ask: do as lock_ask does, for a lock with tokens.
--
-- KEYS     lock, counter, queue?
-- ARGV     #lease, holder, channel, #unit, #floor, deaf?, former?
-- Wire     the hash, its TTL, and the counter

-- include: draw, ask
