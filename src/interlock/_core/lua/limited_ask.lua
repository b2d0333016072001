-- limited_ask: take permits within a limit, or stand in the queue: strictly in order.
--
-- KEYS     permits, queue?
-- ARGV     #lease, holder, channel, stands?, deaf?, former?
-- Returns  as lock_ask; unless *stands*, nil when taken, else milliseconds until a lease ends (-1:
--          none; -2: it is left to others)

-- include: front, limited, permits, permits_ask
