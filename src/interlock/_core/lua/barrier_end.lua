-- barrier_end: break the present generation, or begin a new one.
--
-- A call counts once, however often it arrives.
--
-- KEYS[1]  barrier  hash: generation, parties, broken if it is, and places
-- KEYS[2]  waiting  zset {party: when its lease ends, epoch milliseconds by the server's clock}
-- KEYS[3]  request  string; exists once this call has taken effect, so that a copy does nothing
-- KEYS[4]  spent    string, the same of an answered call, to be removed; or a key that never exists
-- ARGV[1]  how      string, "abort" or "reset"
-- ARGV[2]  ttl      integer > 0, milliseconds that the request is remembered
-- ARGV[3]  kept     integer > 0, milliseconds that an idle barrier is remembered
-- ARGV[4]  channel  string, where parties listen
--
-- Returns  1
-- Source   threading.Barrier.abort and reset of Python 3.13
-- Wire     ours alone: Redisson has no such object
local barrier, waiting, request, spent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local how, ttl, kept, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('exists', request) == 1 then
  return 1
end
local generation = redis.call('hget', barrier, 'generation')
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- When memory is full, the server lets a DEL through, and then all writes that follow.
redis.call('del', spent)
redis.call('del', waiting)
redis.call('set', request, 1, 'px', ttl)
local number = tonumber(generation or now * 1000)
if how == 'abort' then
  redis.call('hset', barrier, 'generation', string.format('%.0f', number), 'broken', 1)
  redis.call('pexpire', barrier, kept)
elseif generation then
  redis.call('del', barrier)
  local after = string.format('%.0f', math.max(number + 1, now * 1000))
  redis.call('hset', barrier, 'generation', after)
  redis.call('pexpire', barrier, kept)
end
redis.call(PUBLISH, channel, '0')
return 1
