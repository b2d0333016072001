-- go_down: reach *depth*; free the lock if that is 0 and nobody stands in *queue*.
--
-- Otherwise the script goes on: the lock is to be given to a client in the queue. The names are
-- those of lock_release. *named* is how the client stands in the queue in the name of *holder*.
if leaving and queue then
  redis.pcall('zrem', queue, leaving, named)
end
if leaving and redis.call('hexists', lock, leaving .. ':0') == 1 then
  holder = leaving .. ':0'
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
if not queue or redis.pcall('exists', queue) ~= 1 then
  redis.call('del', lock)
  redis.call(PUBLISH, channel, '0')
  return 1
end
redis.pcall('zrem', queue, named)
