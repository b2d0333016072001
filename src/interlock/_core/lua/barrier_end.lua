-- barrier_end: a party leaves, or breaks the barrier; or somebody breaks it, or makes it new.
--
-- KEYS     waiting, ended
-- ARGV     party, how, #keep, wakes
-- Returns  its index if it had passed before; else -1
-- Source   threading.Barrier.abort and reset of Python 3.13

-- include: barrier

redis.call('zrem', waiting, party)
if how == 'break' then
  breaks()
elseif how == 'reset' then
  finish(false)
end
note(party)
return noted(-1)
