-- lock_release: go down to *depth*; at 0 the first in the queue holds the lock, or it is free.
--
-- It is also how a waiter gives up. Repeated, it changes nothing.
--
-- KEYS[1]  lock     hash {holder: depth}; its TTL is the lease
-- KEYS[2]  queue    zset, as for lock_ask; may be left out
-- ARGV[1]  holder   string, as for lock_ask
-- ARGV[2]  depth    integer >= 0, the depth to reach
-- ARGV[3]  channel  string, where Java listens
-- ARGV[4]  how      "1": a release gave it the lock, so that it may now be Java's turn; "-": the
--                   caller is another client; may be left out
--
-- Returns  1 when it held the lock; 0 when it only stood in the queue; nil or {} when neither;
--          {number, news} when it held the lock, and the next holder is a hold of its client's;
--          {number} when neither, and its client has been granted the lock by that number
-- Source   RLock.unlock, Redisson 4.7.0
-- Wire     the hash, and "0" on the channel when it is freed, "00" if it is left to Java
local lock, queue = KEYS[1], KEYS[2]
local holder, depth, channel, how = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local draw

-- include: release
