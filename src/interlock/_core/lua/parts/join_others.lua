-- join_others: join the queue of a free lock as *me*, if there is one without *client*.
--
-- The lock was left to others for a moment, or the first client did not take it. The function
-- returns whether the client has joined. It needs `join`.
local function join_others(me)
  return redis.pcall('exists', queue) == 1 and redis.pcall('zscore', queue, client) == false
    and (me == client or redis.pcall('zscore', queue, me) == false) and join(me)
end
