-- event_clear: clear an event; once, however often the call arrives.
--
-- KEYS     event, request
-- ARGV     number, ttl, kept
--
-- Returns  1
-- Source   threading.Event.clear of Python 3.13

-- include: change_event

if word == 'set' then
  redis.call('set', event, 'clear ' .. string.match(state, '%S+$'), 'px', kept)
end
return 1
