-- read_ask: come in as a reader, or find out that somebody writes; else stand in the queue.
--
-- KEYS     lock, entry, coming?, queue?, other...
-- ARGV     #lease, holder, channel, deaf?, former?, written?, reader...
-- Returns  as lock_ask; when it was refused and stood there already, readers and their depths follow
-- Wire     the hash, the entry and their TTLs

-- include: rw_ask
