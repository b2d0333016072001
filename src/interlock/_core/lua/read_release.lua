-- read_release: go down to *depth*; at 0 leave, and let in the first of the queue if they fit.
--
-- KEYS     lock, entry, coming?, queue?
-- ARGV     holder, depth, channel, how?
-- Returns  as lock_release, with all who were let in of its client, with spaces between their numbers
-- Source   RedissonReadLock.unlockInnerAsync
-- Wire     the hash and the entry, and "0" on the channel when it is freed; "00" if it is left
--          to Java, and "01" when readers have come in, so that Java's may

-- include: rw_release
