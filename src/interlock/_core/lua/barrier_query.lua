-- barrier_query: tell how many parties wait, and whether the barrier is broken.
--
-- KEYS     waiting
-- Returns  {number of parties that wait, 1 when it is broken}
-- Source   threading.Barrier.n_waiting and broken of Python 3.13

-- include: now
if redis.call('zscore', waiting, '') or redis.call('zcount', waiting, '-inf', now) > 0 then
  return {0, 1}
end
return {redis.call('zcard', waiting), 0}
