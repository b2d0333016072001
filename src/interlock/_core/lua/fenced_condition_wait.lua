-- fenced_condition_wait: do as condition_wait does; it draws the token of the lock's next holder.
--
-- KEYS[1]  lock       hash {holder: depth}; its TTL is the lease
-- KEYS[2]  condition  zset, as for condition_wait
-- KEYS[3]  counter    string, the last token
-- KEYS[4]  queue      zset, as for lock_ask; may be left out
-- ARGV[1]  holder     string, which holds the lock
-- ARGV[2]  channel    string, where Java listens
-- ARGV[3]  how        "", or as for lock_release
-- ARGV[4]  member     string, as for condition_wait
-- ARGV[5]  unit       integer >= 0, as for fenced_acquire
-- ARGV[6]  floor      integer >= 0, the largest token that this client knows
--
-- Returns  as condition_wait
-- Source   threading.Condition.wait of Python 3.13
-- Wire     as condition_wait, and the counter
local lock, condition, counter, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local holder, channel, how, member = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local unit, floor, depth = tonumber(ARGV[5]), tonumber(ARGV[6]), '0'

-- include: draw

-- include: enlist

local function leave()
  -- include: release
end
local answer = leave()
return type(answer) == 'table' and {at, answer[1], answer[2]} or {at}
