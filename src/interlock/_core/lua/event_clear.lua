-- event_clear: clear an event; once, however often the call arrives.
--
-- KEYS[1]  event    string, "set <mark>", or "clear <mark>" for a while after it was cleared
-- KEYS[2]  request  string; exists once this call has taken effect, so that a copy does nothing
-- KEYS[3]  spent    string, the same of an answered call, to be removed; or a key that never exists
-- ARGV[1]  ttl      integer > 0, milliseconds that the request is remembered
-- ARGV[2]  kept     integer > 0, milliseconds that the last setting is remembered for waiters
--
-- Returns  1
-- Source   threading.Event.clear of Python 3.13
-- Wire     ours alone: Redisson has no such object
local event, request, spent, ttl, kept = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]

-- include: change_event

if word == 'set' then
  redis.call('set', event, 'clear ' .. state:match('%S+$'), 'px', kept)
end
return 1
