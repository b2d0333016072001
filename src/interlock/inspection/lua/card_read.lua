-- card_read: return clients' cards, or only what each says of its client.
--
-- KEYS[1..n]    card   hash, the card of one client
-- ARGV[1]       limit  integer > 0, bytes of the longest name or value that is returned
-- ARGV[2..n+1]  whole  1 for all fields of the card with that number, 0 for the client alone
--
-- Returns  for each card: nil if there is none; {0} if it cannot be read; 1 if the reply is long
--          enough already, and the caller must ask again for this card; else {epoch milliseconds
--          of the server's clock, field, value or its length, field, value or its length, ...}
-- Source   none
-- Wire     nothing is written
local card, cards, limit, whole = KEYS[1], KEYS, tonumber(ARGV[1]), ARGV
local MOST, ENOUGH = 1000, 500

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local told = 0

local function read(all)
  local count = redis.pcall('hlen', card)
  if count == 0 then
    return false
  elseif type(count) == 'table' then
    return {0}
  end
  local wanted = {'client', 'written'}
  if all and count <= MOST then
    wanted = redis.call('hkeys', card)
  end
  local answer = {now}
  for _, field in ipairs(wanted) do
    local length = redis.call('hstrlen', card, field)
    if #field <= limit then
      answer[#answer + 1] = field
      answer[#answer + 1] = length > limit and length or redis.call('hget', card, field)
    end
  end
  told = told + #wanted
  return answer
end

local answers = {}
for i, each in ipairs(cards) do
  card = each
  -- One command must not keep other clients waiting for long.
  answers[i] = told > ENOUGH and 1 or read(whole[i + 1] == '1')
end
return answers
