-- card_busy: tell which clients wait for something, and which hold permits, as their cards say.
--
-- KEYS[1..n]  card   hash, the card of one client
-- ARGV[1]     limit  integer > 0, bytes of the longest value that is looked at
--
-- Returns  for each card the sum of 1 if its client waits, 2 if it holds permits, 4 if it tells how
--          holds ended
-- Source   none
-- Wire     nothing is written
local card, cards, limit = KEYS[1], KEYS, tonumber(ARGV[1])

local answers = {}
for i, each in ipairs(cards) do
  card = each
  local length, busy = redis.pcall('hstrlen', card, 'client'), 0
  if type(length) == 'number' and length > 0 and length <= limit then
    local told = redis.call('hget', card, 'client')
    if string.find(told, '"waits": *[1-9]') then
      busy = 1
    end
    if string.find(told, '"permits": *[1-9]') then
      busy = busy + 2
    end
    if string.find(told, '"ended": *[1-9]') then
      busy = busy + 4
    end
  end
  answers[i] = busy
end
return answers
