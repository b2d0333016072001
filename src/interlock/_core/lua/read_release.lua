-- read_release: go down to *depth*; at 0 leave, and let in the first of the queue if they fit.
--
-- It is also how a waiter gives up. Repeated, it changes nothing.
--
-- KEYS[1]  lock     hash {mode: read or write, reader: depth, writer: depth}; its TTL is the lease
-- KEYS[2]  entry    string "1", the reader's entry, whose TTL is its lease
-- KEYS[3]  coming   string "1", as for read_ask; may be left out
-- KEYS[4]  queue    zset, as for read_ask; may be left out, with coming
-- ARGV[1]  holder   string, as for read_ask
-- ARGV[2]  depth    integer >= 0, the depth to reach
-- ARGV[3]  channel  string, where Java listens
-- ARGV[4]  how      as for lock_release; may be left out
--
-- Returns  as lock_release, with all who were let in of its client, with spaces between their numbers
-- Source   RedissonReadLock.unlockInnerAsync, Redisson 4.7.0
-- Wire     the hash and the entry, and "0" on the channel when it is freed; "00" if it is left
--          to Java, and "01" when readers have come in, so that Java's may
local lock, entry, coming, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local holder, depth, channel, how = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- include: rw_release
