-- condition_wait: stand in a condition and release the lock, in one step.
--
-- KEYS     lock, condition, queue?
-- ARGV     holder, channel, how, member
-- Returns  {the server's time in microseconds, perhaps number and news as of lock_release}; nil when
--          the lock is not held, and the member not known
-- Source   threading.Condition.wait of Python 3.13
-- Wire     the lock as after a release; Redisson has no conditions
local draw

-- include: wait(release)
