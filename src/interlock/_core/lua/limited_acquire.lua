-- limited_acquire: take permits within a limit, unless somebody waits.
--
-- KEYS     permits, queue?
-- ARGV     #lease, holder, channel
--
-- Returns  nil when taken; else milliseconds until a lease ends (-1: none; -2: it is left to others)

-- include: front, limited, permits, permits_acquire
