-- read_condition_wait: do as condition_wait does, for a reader.
--
-- KEYS[1]  lock       hash {mode: read or write, reader: depth, writer: depth}; its TTL is the lease
-- KEYS[2]  condition  zset, as for condition_wait
-- KEYS[3]  entry      string "1", the reader's entry, whose TTL is its lease
-- KEYS[4]  coming     string "1", as for read_ask; may be left out
-- KEYS[5]  queue      zset, as for read_ask; may be left out, with coming
-- ARGV[1]  holder     string, which reads
-- ARGV[2]  channel    string, where Java listens
-- ARGV[3]  how        "", or as for lock_release
-- ARGV[4]  member     string, as for condition_wait
--
-- Returns  as condition_wait
-- Source   threading.Condition.wait of Python 3.13
-- Wire     the lock as after a release; Redisson has no conditions
local lock, condition, entry, coming, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local holder, channel, how, member, depth = ARGV[1], ARGV[2], ARGV[3], ARGV[4], '0'

-- include: enlist

local function leave()
  -- include: rw_release
end
local answer = leave()
return type(answer) == 'table' and {at, answer[1], answer[2]} or {at}
