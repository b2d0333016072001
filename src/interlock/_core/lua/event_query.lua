-- event_query: tell whether an event is set, and which setting was the last; as latch_query.
--
-- KEYS     event
-- ARGV     idle
-- Returns  {0 when it is set, else 1; the mark of the last setting (nil: none lately)}
-- Source   threading.Event.is_set of Python 3.13
-- Wire     the TTL; ours alone

-- include: event_state

if idle ~= '0' and word == 'set' then
  redis.call('pexpire', event, idle)
end
return {word == 'set' and 0 or 1, mark ~= '' and mark}
