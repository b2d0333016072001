-- barrier_pass: end a generation whose last party has acted; break it if a party has left.
--
-- KEYS[1]  barrier     hash: generation, parties, and broken if it is
-- KEYS[2]  waiting     zset {party: when its lease ends, epoch milliseconds by the server's clock}
-- KEYS[3]  passed      zset {generation that passed: when, epoch milliseconds}
-- ARGV[1]  generation  integer > 0, the generation: sending it twice changes nothing
-- ARGV[2]  party       string, the party that has acted; without it, a late copy changes nothing
-- ARGV[3]  kept        integer > 0, milliseconds that an idle barrier is remembered
-- ARGV[4]  channel     string, where parties listen
--
-- Returns  1 if the generation passed; 0 if it is broken, or the party has left
-- Source   threading.Barrier of Python 3.13
-- Wire     ours alone: Redisson has no such object
local barrier, waiting, passed = KEYS[1], KEYS[2], KEYS[3]
local generation, party, kept, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('zscore', passed, generation) then
  return 1
end
local known = redis.call('hmget', barrier, 'generation', 'parties', 'broken')
if known[1] ~= generation or known[3] or not redis.call('zscore', waiting, party) then
  return 0
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local alive = redis.call('zcount', waiting, '(' .. now, '+inf')
-- When memory is full, the server lets a DEL through, and then all writes that follow.
redis.call('del', waiting)
if alive < tonumber(known[2]) then
  redis.call('hset', barrier, 'broken', 1)
  redis.call('pexpire', barrier, kept)
  redis.call(PUBLISH, channel, '0')
  return 0
end
local after = string.format('%.0f', math.max(tonumber(generation) + 1, now * 1000))
redis.call('del', barrier)
redis.call('hset', barrier, 'generation', after, 'parties', known[2])
redis.call('pexpire', barrier, kept)
redis.call('zadd', passed, now, generation)
redis.call('zremrangebyrank', passed, 0, -10001)
redis.call('pexpire', passed, kept)
redis.call(PUBLISH, channel, '1')
return 1
