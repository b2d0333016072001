-- limited_acquire: take permits within a limit, unless somebody waits.
--
-- KEYS     permits, queue?
-- ARGV     #lease, holder, channel
--
-- Returns  nil when taken; else milliseconds until a lease ends (-1: none; -2: it is left to others)
-- Source   our own
-- Wire     none: Redisson has no such thing

-- include: front

-- include: limited

-- include: permits

-- include: permits_acquire
