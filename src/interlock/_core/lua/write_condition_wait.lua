-- write_condition_wait: do as condition_wait does, for a writer.
--
-- KEYS     lock, condition, coming?, queue?
-- ARGV     holder, channel, how, member
-- Returns  as condition_wait
-- Source   threading.Condition.wait of Python 3.13
-- Wire     the lock as after a release; Redisson has no conditions
local entry = KEYS[0] -- nil: a writer has none

-- include: wait(rw_release)
