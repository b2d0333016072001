-- change_event (part): begin to change an event, once for this call; a copy ends here.
--
-- *state* and its first *word* tell what it was.
local last = redis.call('get', request)
if last and string.sub(last, 1, 12) >= number then
  return 1
end
local state = redis.call('get', event) or 'clear'
local word = string.match(state, '^%l+')
if word ~= 'set' and word ~= 'clear' then
  return redis.error_reply('WRONGTYPE this is not the state of an event')
end
redis.call('del', request) -- a full server refuses most writes, but only as the first one
redis.call('set', request, number .. ' 1', 'px', ttl)
