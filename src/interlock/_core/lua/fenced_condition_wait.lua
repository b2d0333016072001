-- fenced_condition_wait: do as condition_wait does; it draws the token of the lock's next holder.
--
-- KEYS     lock, condition, counter, queue?
-- ARGV     holder, channel, how, member, #unit, #floor
-- Wire     as condition_wait, and the counter

-- include: draw, wait(release)
