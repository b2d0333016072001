-- reach_depth: take a lock that is free, ours or claimed by us; else stand in *queue* as *me*.
--
-- The result is nil if *holder* has the lock now, else what is left of the other's lease. *draw*
-- may be left out. It is called before the lock is taken. *free* tells whether there is no lock.
--
-- It needs `join` and `join_others`. The names are those of lock_acquire. *named* is how the client
-- stands in the queue in the name of *holder*. *side* is what all fields end with.
local function reach_depth(free, draw)
  local ours = not free and redis.call('hexists', lock, holder) == 1
  -- The client's claim is the only field, so the lock is free without it.
  local claimed = client and not free and not ours
    and redis.pcall('hexists', lock, client .. ':0' .. side) == 1
  if claimed then
    free = true
  elseif client and free and join_others(me) then
    return COURTESY
  end
  if not ours and not free then
    if client and (me == client or redis.pcall('zscore', queue, client) == false) then
      join(me)
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
    leave(named)
  end
  return nil
end
