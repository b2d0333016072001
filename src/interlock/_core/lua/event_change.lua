-- event_change: set an event and tell the waiters, or clear it; once, however often the call arrives.
--
-- KEYS     event, request
-- ARGV     number, ttl, how, idle, channel, client, kept
-- Returns  1
-- Source   threading.Event.set and clear of Python 3.13

-- include: once, event_state

redis.call('del', request) -- a full server refuses most writes, but only as the first one
redis.call('set', request, number .. ' 1', 'px', ttl)
if how == 'set' and word == 'clear' then
  redis.call('set', event, 'set ' .. client .. ':' .. number)
  redis.pcall(PUBLISH, channel, '1')
elseif how == 'clear' and word == 'set' then
  redis.call('set', event, 'clear ' .. mark, 'px', kept)
end
if how == 'set' and idle ~= '0' then
  redis.call('pexpire', event, idle)
end
return 1
