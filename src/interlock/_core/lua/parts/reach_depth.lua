-- reach_depth: take a lock that is free, ours or claimed by us; else stand in *queue* as *me*.
--
-- The result is nil if *holder* has the lock now, else what is left of the other's lease. *draw*
-- may be left out. It is called before the lock is taken. *free* tells whether there is no lock.
--
-- It needs `stand_in_queue`. The names are those of lock_acquire. *named* is how the client stands
-- in the queue in the name of *holder*. *side* is what all fields end with.
local function reach_depth(free, draw)
  local ours = not free and redis.call('hexists', lock, holder) == 1
  -- The client's claim is the only field, so the lock is free without it.
  local claimed = client and not free and not ours
    and redis.pcall('hexists', lock, client .. ':0' .. side) == 1
  if claimed then
    free = true
  elseif client and free and redis.pcall('exists', queue) == 1
    and redis.pcall('zscore', queue, client) == false
    and redis.pcall('zscore', queue, me) == false and stand_in_queue(me) then
    -- A free lock with a queue: it was left to others for a moment, or the first client did not
    -- take it. This client joins the queue.
    return COURTESY
  end
  if not ours and not free then
    if client and (me == client or redis.pcall('zscore', queue, client) == false) then
      stand_in_queue(me)
    end
    return redis.call('pttl', lock)
  end
  if draw then
    draw(free)
  end
  if side == ':write' then
    redis.call('hset', lock, 'mode', 'write', holder, depth)
  else
    redis.call('hset', lock, holder, depth)
  end
  if claimed then
    -- Last: a key that was gone for a moment cannot be made again while its slot moves.
    redis.pcall('hdel', lock, client .. ':0' .. side)
  end
  if free or redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
  end
  if client then
    redis.pcall('zrem', queue, client, named)
    if others_wait == '1' then
      stand_in_queue(client)
    end
  end
  return nil
end
