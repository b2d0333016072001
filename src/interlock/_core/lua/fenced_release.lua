-- fenced_release: do as lock_release does; it draws the token of the next holder.
--
-- KEYS     lock, counter, queue?
-- ARGV     holder, depth, channel, how, #unit, #floor
-- Wire     as lock_release, and the counter

-- include: draw, release
