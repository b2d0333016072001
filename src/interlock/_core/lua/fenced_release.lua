-- fenced_release: do as lock_release does; it draws the token of the next holder.
--
-- KEYS     lock, counter, queue?
-- ARGV     holder, depth, channel, how, #unit, #floor
-- Returns  as lock_release
-- Source   RLock.unlock, Redisson 4.7.0
-- Wire     as lock_release, and the counter

-- include: draw, release
