-- barrier_look: tell how a generation stands; a dead party breaks it, or one that gives up.
--
-- KEYS[1]  barrier     hash: generation, parties, and broken when it is
-- KEYS[2]  waiting     zset {party: when its lease ends, epoch milliseconds by the server's clock}
-- KEYS[3]  resets      zset {generation that ended by a reset: the same}
-- ARGV[1]  generation  integer > 0, the one that is asked about
-- ARGV[2]  party       string, who gives up; empty for nobody
-- ARGV[3]  publish     string, PUBLISH, SPUBLISH, or empty for no message
-- ARGV[4]  channel     string, where parties listen
--
-- Returns  {0, milliseconds until the next lease ends} while it is awaited; {1} passed; {2} broken
-- Source   threading.Barrier of Python 3.13
-- Wire     ours alone: Redisson has no such object
local barrier, waiting, resets = KEYS[1], KEYS[2], KEYS[3]
local generation, party, publish, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local known = redis.call('hmget', barrier, 'generation', 'broken')
if known[1] ~= generation then
  local passed = known[1] and not redis.call('zscore', resets, generation)
  return {passed and 1 or 2}
end
if known[2] then
  return {2}
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local gives_up = party ~= '' and redis.call('zscore', waiting, party)
local first = redis.call('zrange', waiting, 0, 0, 'withscores')
if first[2] and tonumber(first[2]) > now and not gives_up then
  return {0, tonumber(first[2]) - now}
end
-- Before the HSET, which a full server would refuse as the first write.
redis.call('del', waiting)
redis.call('hset', barrier, 'broken', 1)
redis.call('persist', barrier)
if publish ~= '' then
  redis.call(publish, channel, '0')
end
return {2}
