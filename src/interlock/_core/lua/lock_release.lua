-- lock_release: go down to *depth*; at 0 the first in the queue holds the lock, or it is free.
--
-- KEYS     lock, queue?
-- ARGV     holder, depth, channel, how?
-- Returns  1 when it held the lock; 0 when it only stood in the queue; nil or {} when neither;
--          {number, news} when it held the lock, and the next holder is a hold of its client's;
--          {number} when neither, and its client has been granted the lock by that number
-- Source   RLock.unlock
-- Wire     the hash, and "0" on the channel when it is freed, "00" if it is left to Java
local draw

-- include: release
