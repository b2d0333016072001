-- write_condition_wait: do as condition_wait does, for a writer.
--
-- KEYS     lock, condition, coming?, queue?
-- ARGV     holder, channel, how, member
local entry = KEYS[0] -- nil: a writer has none

-- include: wait(rw_release)
