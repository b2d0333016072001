-- read_condition_wait: do as condition_wait does, for a reader.
--
-- KEYS     lock, condition, entry, coming?, queue?
-- ARGV     holder, channel, how, member
--
-- Returns  as condition_wait
-- Source   threading.Condition.wait of Python 3.13
-- Wire     the lock as after a release; Redisson has no conditions

-- include: wait(rw_release)
