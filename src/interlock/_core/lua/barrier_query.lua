-- barrier_query: tell how many parties wait, and whether the barrier is broken.
--
-- KEYS[1]  barrier  hash: generation, parties, broken if it is, and places
-- KEYS[2]  waiting  zset {party: when its lease ends, epoch milliseconds by the server's clock}
--
-- Returns  {number of parties that wait, 1 when it is broken}
-- Source   threading.Barrier.n_waiting and broken of Python 3.13
-- Wire     nothing is written; ours alone
local barrier, waiting = KEYS[1], KEYS[2]

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local broken = redis.call('hexists', barrier, 'broken') == 1
if broken or redis.call('zcount', waiting, '-inf', now) > 0 then
  return {0, 1}
end
return {redis.call('zcard', waiting), 0}
