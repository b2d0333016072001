-- free_for_all: if nobody stands in *queue*, free the lock and tell all; the script ends here.
--
-- Otherwise *named* leaves the queue. The names are those of lock_release.
if not queue or redis.pcall('exists', queue) ~= 1 then
  redis.call('del', lock)
  redis.call(PUBLISH, channel, '0')
  return 1
end
redis.pcall('zrem', queue, named)
