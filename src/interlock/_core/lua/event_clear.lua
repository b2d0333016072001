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

if redis.call('exists', request) == 1 then
  return 1
end
local state = redis.call('get', event) or 'clear'
local word = state:match('^%l+')
if word ~= 'set' and word ~= 'clear' then
  return redis.error_reply('WRONGTYPE this is not the state of an event')
end
-- When memory is full, the server lets a DEL through, and then all writes that follow.
redis.call('del', spent)
redis.call('set', request, 1, 'px', ttl)
if word == 'set' then
  redis.call('set', event, 'clear ' .. state:match('%S+$'), 'px', kept)
end
return 1
