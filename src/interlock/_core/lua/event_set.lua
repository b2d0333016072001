-- event_set: set an event and tell the waiters; once, however often the call arrives.
--
-- KEYS[1]  event    string, "set <mark>", or "clear <mark>" for a while after it was cleared
-- KEYS[2]  request  string, "<number> 1": the last call with this key
-- ARGV[1]  number   integer of 12 digits, tells this call from those before it
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is kept
-- ARGV[3]  client   string, the client's id: with the number it tells this setting from others
-- ARGV[4]  channel  string, where waiters listen
-- ARGV[5]  idle     integer >= 0, milliseconds after its last use when it ends; 0: never
--
-- Returns  1
-- Source   threading.Event.set of Python 3.13
-- Wire     ours alone: Redisson has no such object
local event, request = KEYS[1], KEYS[2]
local number, ttl, client, channel, idle = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- include: change_event

if word == 'clear' then
  redis.call('set', event, 'set ' .. client .. ':' .. number)
  redis.call(PUBLISH, channel, '1')
end
if idle ~= '0' then
  redis.call('pexpire', event, idle)
end
return 1
