-- limited_release: give back permits and a place, and let in the first of the queue if they fit.
--
-- KEYS     permits, queue?
-- ARGV     holder, channel, how?
-- Returns  as read_release

-- include: front, limited, permits, permits_release
