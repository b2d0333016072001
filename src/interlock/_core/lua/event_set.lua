-- event_set: set an event and tell the waiters; once, however often the call arrives.
--
-- KEYS     event, request
-- ARGV     number, ttl, client, channel, idle
--
-- Returns  1
-- Source   threading.Event.set of Python 3.13

-- include: change_event

if word == 'clear' then
  redis.call('set', event, 'set ' .. client .. ':' .. number)
  redis.call(PUBLISH, channel, '1')
end
if idle ~= '0' then
  redis.call('pexpire', event, idle)
end
return 1
