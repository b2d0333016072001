-- limited_ask: take permits within a limit, or stand in the queue: strictly in order.
--
-- KEYS     permits, queue?
-- ARGV     #lease, holder, channel, deaf?, former?
--
-- Returns  as lock_ask

-- include: front, limited, permits, permits_ask
