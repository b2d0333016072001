-- barrier_arrive: count a party, or keep it alive; the last one lets all pass. A dead party breaks it.
--
-- KEYS     waiting, ended
-- ARGV     party, #parties, #lease, #keep, wakes, look?
-- Returns  nil while it waits; its index when it passed; -1 when it did not, or the barrier is broken
-- Source   threading.Barrier of Python 3.13

-- include: barrier

local broken = redis.call('zscore', waiting, '')
if broken or look ~= '' and not redis.call('zscore', waiting, party) then
  redis.call('pexpire', waiting, broken and HOUR or keep) -- first: a full server refuses no PEXPIRE
  note(party)
  return noted(-1)
end
if look ~= '' then
  redis.call('pexpire', waiting, keep) -- so that a full server throws nobody out who waits
end
if redis.call('zcount', waiting, '-inf', now) > 0 then
  breaks()
  note(party)
  return noted(-1)
end
redis.call('zadd', waiting, now + lease, party)
redis.call('pexpire', waiting, keep)
if redis.call('zcard', waiting) < parties then
  return nil
end
finish(true)
return noted(result(party))
