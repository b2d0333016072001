-- card_read: return some fields of a client's card, each only if it is short.
--
-- KEYS[1]     card   hash, the card of one client
-- ARGV[1]     limit  integer > 0, bytes of a value that is told
-- ARGV[2..n]  field  string, a field that is wanted; none for all of them
--
-- Returns  nil if there is no card; else {epoch milliseconds of the server's clock, milliseconds
--          that are left of the card, field, value or its length, field, value or its length, ...}
-- Source   none
-- Wire     nothing is written
local card, limit, fields = KEYS[1], tonumber(ARGV[1]), ARGV
local MOST = 1000

local kind = redis.call('type', card).ok
if kind ~= 'hash' then
  return kind ~= 'none' and {0, 0} or nil
end
local wanted = {}
for i = 2, #fields do
  wanted[#wanted + 1] = fields[i]
end
if #wanted == 0 then
  wanted = redis.call('hlen', card) <= MOST and redis.call('hkeys', card) or {'client', 'written'}
end
local time = redis.call('time')
local answer = {time[1] * 1000 + math.floor(time[2] / 1000), redis.call('pttl', card)}
for _, field in ipairs(wanted) do
  local length = redis.call('hstrlen', card, field)
  if #field <= limit then
    answer[#answer + 1] = field
    answer[#answer + 1] = length > limit and length or redis.call('hget', card, field)
  end
end
return answer
