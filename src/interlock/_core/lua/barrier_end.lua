-- barrier_end: a party leaves, or breaks the barrier; or somebody breaks it, or makes it new.
--
-- KEYS[1]  waiting  zset, as for barrier_arrive
-- KEYS[2]  ended    zset, as for barrier_arrive
-- ARGV[1]  party    string, as for barrier_arrive; of a call from outside a number of its own
-- ARGV[2]  how      string, "leave", "break" or "reset"
-- ARGV[3]  keep     integer > 0, as for barrier_arrive
-- ARGV[4]  wakes    string, as for barrier_arrive
--
-- Returns  its index if it had passed before; else -1
-- Source   threading.Barrier.abort and reset of Python 3.13
-- Wire     ours alone
local waiting, ended, party, how = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local keep, wakes = tonumber(ARGV[3]), ARGV[4]

-- include: barrier

local known = result(party)
if known then
  return known
end
redis.call('zrem', waiting, party)
if how == 'break' then
  breaks()
elseif how == 'reset' then
  finish(false)
end
note(party)
return noted(-1)
