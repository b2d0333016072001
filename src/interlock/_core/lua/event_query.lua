-- event_query: tell whether an event is set, and which setting was the last; as latch_query.
--
-- KEYS     event
-- ARGV     idle
-- Returns  {0 when it is set, else 1; the mark of the last setting (nil: none lately)}
-- Source   threading.Event.is_set of Python 3.13
-- Wire     the TTL; ours alone

local state = redis.call('get', event)
if not state then
  return {1, false}
end
local word, mark = string.match(state, '^(%l+) (%S+)$')
if word ~= 'set' and word ~= 'clear' then
  return redis.error_reply('WRONGTYPE this is not the state of an event')
end
if idle ~= '0' and word == 'set' then
  redis.call('pexpire', event, idle)
end
return {word == 'set' and 0 or 1, mark}
