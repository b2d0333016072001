-- go_down: reach *depth*; the script goes on if the lock of *holder* is to be given away, or freed.
--
-- If *leaving* is "-" and the lock is held, the queue is tidied, and that is all.
--
-- If the client *leaving* has a claim, its field is the holder. *side* is what all fields end with.
-- *named* is how the client stands in *queue* in the name of *holder*. The other names are those of
-- lock_release.
local left = leaving == '-' and queue and redis.call('pttl', lock) or -2
if left ~= -2 then

  -- include: members

  -- include: tidy

  tidy(left > 0 and left <= CLAIM)
  return nil
end
if leaving and queue then
  redis.pcall('zrem', queue, leaving, named)
end
if leaving and redis.call('hexists', lock, leaving .. ':0' .. side) == 1 then
  holder = leaving .. ':0' .. side
end
if redis.call('hexists', lock, holder) == 0 then
  -- The client that leaves may have been told to ask for a free lock in 20 ms. Then the next one
  -- must be told. "-" only looks whether the claim of a client in the queue ended unused.
  if not leaving or redis.call('exists', lock) == 1
    or leaving == '-' and (not queue or redis.pcall('exists', queue) ~= 1) then
    return nil
  end
elseif depth ~= '0' then
  redis.call('hdel', lock, '')
  redis.call('hset', lock, holder, depth)
  return 1
end
