-- write_release: go down to *depth*; at 0 leave, or go on as a reader, and let in the first of the queue.
--
-- KEYS     lock, coming?, queue?
-- ARGV     holder, depth, channel, how?
-- Returns  as lock_release, with all who were let in of its client, with spaces between their numbers
-- Source   RedissonWriteLock.unlockInnerAsync, with a message when its owner goes on reading
-- Wire     the hash, and "1" on the channel when it is freed; "01" if it is left to Java, and "01" when
--          readers have come in, so that Java's may
local entry = KEYS[0] -- nil: a writer has none

-- include: rw_release
