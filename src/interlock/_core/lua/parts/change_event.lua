-- change_event: begin to change an event, once for this *request*; a copy ends here.
--
-- *state* and its first *word* tell what it was. The names are those of event_set.
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
