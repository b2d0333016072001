-- barrier_look: tell how a generation stands; a party that died or gives up breaks it.
--
-- KEYS[1]  barrier     hash: generation, parties, and broken if it is
-- KEYS[2]  waiting     zset {party: when its lease ends, epoch milliseconds by the server's clock}
-- KEYS[3]  passed      zset {generation that passed: when, epoch milliseconds}
-- ARGV[1]  generation  integer > 0, the generation in question
-- ARGV[2]  party       string, the party that gives up; empty for none
-- ARGV[3]  kept        integer > 0, milliseconds that an idle barrier is remembered
-- ARGV[4]  channel     string, where parties listen
--
-- Returns  {0, milliseconds until the first lease ends} while parties are missing; {1} if the
--          generation passed; {2} if it is broken
-- Source   threading.Barrier of Python 3.13
-- Wire     ours alone: Redisson has no such object
local barrier, waiting, passed = KEYS[1], KEYS[2], KEYS[3]
local generation, party, kept = ARGV[1], ARGV[2], tonumber(ARGV[3])
local channel = ARGV[4]

-- A server that has lost its data knows no generation. Those who wait for one did not pass.
if redis.call('zscore', passed, generation) then
  return {1}
end
local known = redis.call('hmget', barrier, 'generation', 'broken')
if known[1] ~= generation or known[2] then
  return {2}
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local gives_up = party ~= '' and redis.call('zscore', waiting, party)
local first = redis.call('zrange', waiting, 0, 0, 'withscores')
if first[2] and tonumber(first[2]) > now and not gives_up then
  if redis.call('pttl', barrier) < kept / 2 then
    redis.call('pexpire', barrier, kept)
    redis.call('pexpire', waiting, kept)
  end
  return {0, tonumber(first[2]) - now}
end
-- The DEL comes before the HSET: a full server would refuse an HSET as the first write.
redis.call('del', waiting)
redis.call('hset', barrier, 'broken', 1)
redis.call('pexpire', barrier, kept)
redis.call(PUBLISH, channel, '0')
return {2}
