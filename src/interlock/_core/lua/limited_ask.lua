-- limited_ask: take permits within a limit, or stand in the queue: strictly in order.
--
-- KEYS     permits, queue?
-- ARGV     #lease, holder, channel, deaf?, former?
--
-- Returns  as lock_ask
-- Source   our own
-- Wire     none: Redisson has no such thing

-- include: front

-- include: limited

-- include: permits

-- include: permits_ask
