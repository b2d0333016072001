-- event_state (part): the *word* of an event, set or clear, and the *mark* of its last setting, or ''.
local word, mark = string.match(redis.call('get', event) or 'clear', '^(%l+) ?(%S*)$')
if word ~= 'set' and word ~= 'clear' then
  return redis.error_reply('WRONGTYPE this is not the state of an event')
end
