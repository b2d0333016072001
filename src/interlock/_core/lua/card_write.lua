-- card_write: replace or remove a client's card, which tells operators of its holds and waits.
--
-- KEYS[1]     card    hash {client: JSON, written: epoch milliseconds, number: of the card,
--                     "h <holder> <key>": JSON, "w <holder> <key>": JSON, "p <holder> <key>": JSON}
-- KEYS[2]     index   zset {client id: when its card expires}; may be left out
-- ARGV[1]     client  string, the client's id
-- ARGV[2]     number  integer > 0, of this card: an older card is not written over a newer one
-- ARGV[3]     keep    integer > 0, milliseconds
-- ARGV[4..n]  field   string, names and values in turn; none to remove the card
--
-- Returns  1 when written, 0 when there is a newer one
-- Source   none
-- Wire     both keys are ours; Java does not look at them
local card, index, client, number = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local keep, fields = ARGV[3], ARGV
local FIRST = 4

local known = tonumber(redis.call('hget', card, 'number') or 0)
if known and known > tonumber(number) then
  return 0
end
redis.call('del', card)
if #fields < FIRST then
  if index then
    redis.call('zrem', index, client)
  end
  return 1
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('hset', card, 'number', number, 'written', now)
for i = FIRST, #fields, 2 do
  redis.call('hset', card, fields[i], fields[i + 1])
end
redis.call('pexpire', card, keep)
if index then
  redis.call('zremrangebyscore', index, 0, now)
  redis.call('zadd', index, now + tonumber(keep), client)
  if redis.call('pttl', index) < tonumber(keep) then
    redis.call('pexpire', index, keep)
  end
end
return 1
