-- card_write: replace or remove a client's card, which tells operators of its holds and waits.
--
-- KEYS     card, index?
-- ARGV     client, #keep, field...
-- Returns  1
local FIRST = 3

redis.call('del', card)
if #ARGV < FIRST then
  if index then
    redis.call('zrem', index, client)
  end
  return 1
end
-- include: now
redis.call('hset', card, 'written', now)
for i = FIRST, #ARGV, 2 do
  redis.call('hset', card, ARGV[i], ARGV[i + 1])
end
redis.call('pexpire', card, keep)
if index then
  redis.call('zremrangebyscore', index, 0, now)
  redis.call('zadd', index, now + keep, client)
  -- include: extend(index, keep)
end
return 1
