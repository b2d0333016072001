-- card_read: return some fields of clients' cards, each only if it is short.
--
-- KEYS[1..n]  card   hash, the card of one client
-- ARGV[1]     limit  integer > 0, bytes of a value that is told
-- ARGV[2..n]  field  string, for each card the number of wanted fields and their names; with 0
--                    all fields are told
--
-- Returns  for each card nil if there is none; else {epoch milliseconds of the server's clock,
--          milliseconds that are left of the card, field, value or its length, field, ...}
-- Source   none
-- Wire     nothing is written
local cards, limit, fields = KEYS, tonumber(ARGV[1]), ARGV
local MOST = 1000

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function read(card, wanted)
  local kind = redis.call('type', card).ok
  if kind ~= 'hash' then
    return kind ~= 'none' and {0, 0}
  end
  if #wanted == 0 then
    local few = redis.call('hlen', card) <= MOST
    wanted = few and redis.call('hkeys', card) or {'client', 'written'}
  end
  local answer = {now, redis.call('pttl', card)}
  for _, field in ipairs(wanted) do
    local length = redis.call('hstrlen', card, field)
    if #field <= limit then
      answer[#answer + 1] = field
      answer[#answer + 1] = length > limit and length or redis.call('hget', card, field)
    end
  end
  return answer
end

local answers, at = {}, 2
for i, card in ipairs(cards) do
  local count, wanted = tonumber(fields[at]), {}
  for place = at + 1, at + count do
    wanted[#wanted + 1] = fields[place]
  end
  at = at + count + 1
  answers[i] = read(card, wanted) or false
end
return answers
