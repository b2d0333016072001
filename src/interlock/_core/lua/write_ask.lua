-- write_ask: come in as the writer, or find out that somebody is in; else stand in the queue.
--
-- KEYS     lock, coming?, queue?, other...
-- ARGV     #lease, holder, channel, deaf?, former?, written?, reader...
-- Returns  as lock_ask; when it was refused and stood there already, readers and their depths follow
-- Wire     the hash and its TTL
local entry = KEYS[0] -- nil: a writer has none

-- include: rw_ask
