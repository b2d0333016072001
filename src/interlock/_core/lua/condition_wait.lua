-- condition_wait: stand in a condition and release the lock, in one step.
--
-- Repeated, it changes nothing. A copy that comes late finds a holder that is gone.
--
-- KEYS[1]  lock       hash {holder: depth}; its TTL is the lease
-- KEYS[2]  condition  zset {holder of the next hold, and "?" if its client cannot listen: when it
--                     came, microseconds}
-- KEYS[3]  queue      zset, as for lock_ask; may be left out
-- ARGV[1]  holder     string, which holds the lock
-- ARGV[2]  channel    string, where Java listens
-- ARGV[3]  how        "", or as for lock_release
-- ARGV[4]  member     string, the holder of the next hold, and "?" as above
--
-- Returns  {the server's time in microseconds, perhaps number and news as of lock_release}; nil when
--          the lock is not held, and the member not known
-- Source   threading.Condition.wait of Python 3.13
-- Wire     the lock as after a release; Redisson has no conditions
local lock, condition, queue = KEYS[1], KEYS[2], KEYS[3]
local holder, channel, how, member = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local depth, draw = '0', nil

-- include: enlist

local function leave()
  -- include: release
end
local answer = leave()
return type(answer) == 'table' and {at, answer[1], answer[2]} or {at}
