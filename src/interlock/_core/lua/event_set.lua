-- event_set: set an event and tell the waiters; once, however often the call arrives.
--
-- KEYS[1]  event    string, "set <mark>", or "clear <mark>" for a while after it was cleared
-- KEYS[2]  request  string; exists once this call has taken effect, so that a copy does nothing
-- KEYS[3]  spent    string, the same of an answered call, to be removed; or a key that never exists
-- ARGV[1]  ttl      integer > 0, milliseconds that the request is remembered
-- ARGV[2]  mark     string, tells this setting from others
-- ARGV[3]  channel  string, where waiters listen
-- ARGV[4]  idle     integer >= 0, milliseconds after its last use when it ends; 0: never
--
-- Returns  1
-- Source   threading.Event.set of Python 3.13
-- Wire     ours alone: Redisson has no such object
local event, request, spent = KEYS[1], KEYS[2], KEYS[3]
local ttl, mark, channel, idle = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

-- include: change_event

if word == 'clear' then
  redis.call('set', event, 'set ' .. mark)
  redis.call(PUBLISH, channel, '1')
end
if idle > 0 then
  redis.call('pexpire', event, idle)
end
return 1
