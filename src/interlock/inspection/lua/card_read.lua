-- card_read: return a client's card, or (unless *whole* is 1) only what it says of its client.
--
-- KEYS     card
-- ARGV     #limit, whole
--
-- Returns  nil if there is none; {0} if it cannot be read; else {epoch milliseconds of the server's
--          clock, field, value or its length, field, value or its length, ...}
-- Source   none
-- Wire     nothing is written
local MOST = 1000

local count = redis.pcall('hlen', card)
if count == 0 then
  return false
elseif type(count) == 'table' then
  return {0}
end
local wanted = {'client', 'written'}
if whole == '1' and count <= MOST then
  wanted = redis.call('hkeys', card)
end
local time = redis.call('time')
local answer = {time[1] * 1000 + math.floor(time[2] / 1000)}
for _, field in ipairs(wanted) do
  local length = redis.call('hstrlen', card, field)
  if #field <= limit then
    answer[#answer + 1] = field
    answer[#answer + 1] = length > limit and length or redis.call('hget', card, field)
  end
end
return answer
