-- event_clear: clear an event; once, however often the call arrives.
--
-- KEYS[1]  event    string, "set <mark>", or "clear <mark>" for a while after it was cleared
-- KEYS[2]  request  string, "<number> 1": the last call with this key
-- ARGV[1]  number   integer of 12 digits, tells this call from those before it
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is kept
-- ARGV[3]  kept     integer > 0, milliseconds that the last setting is remembered for waiters
--
-- Returns  1
-- Source   threading.Event.clear of Python 3.13
-- Wire     ours alone: Redisson has no such object
local event, request, number, ttl, kept = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]

-- include: change_event

if word == 'set' then
  redis.call('set', event, 'clear ' .. string.match(state, '%S+$'), 'px', kept)
end
return 1
