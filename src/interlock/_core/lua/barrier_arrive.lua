-- barrier_arrive: count a party as arrived, and end the generation if it is the last one; once.
--
-- KEYS[1]  barrier  hash: generation, parties, and broken when it is
-- KEYS[2]  waiting  zset {party: when its lease ends, epoch milliseconds by the server's clock}
-- KEYS[3]  request  string, "<generation> <index>" of this call, for when it arrives again
-- KEYS[4]  spent    string, the same of an answered call, to be removed; or no key
-- ARGV[1]  party    string, an id that nobody else has
-- ARGV[2]  parties  integer > 0, how many it takes
-- ARGV[3]  lease    integer > 0, milliseconds that the party is believed without a renewal
-- ARGV[4]  ttl      integer > 0, milliseconds that the request is remembered
-- ARGV[5]  kept     integer > 0, milliseconds that an idle barrier is remembered
-- ARGV[6]  publish  string, PUBLISH, SPUBLISH, or empty for no message
-- ARGV[7]  channel  string, where parties listen
--
-- Returns  {generation, index}; index -1 when it is broken; {parties, -2} if it has others
-- Source   threading.Barrier of Python 3.13
-- Wire     ours alone: Redisson has no such object
local barrier, waiting, request, spent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local party, parties, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ttl, kept, publish, channel = ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local before = redis.call('get', request)
if before then
  local generation, index = before:match('^(%d+) (%d+)$')
  return {generation, tonumber(index)}
end
local known = redis.call('hmget', barrier, 'generation', 'parties', 'broken')
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- A DEL is let through when memory is full, and with it all that follows.
redis.call('del', spent)
local index = redis.call('zcard', waiting)
if tonumber(known[2] or parties) ~= parties and (index > 0 or known[3]) then
  return {known[2], -2}
end
local generation = tonumber(known[1] or now * 1000)
if not known[3] and redis.call('zcount', waiting, '-inf', now) > 0 then
  known[3] = '1'
  redis.call('hset', barrier, 'broken', 1)
  redis.call('persist', barrier)
  redis.call('del', waiting)
  if publish ~= '' then
    redis.call(publish, channel, '0')
  end
end
local name = string.format('%.0f', generation)
if known[3] then
  return {name, -1}
end
redis.call('set', request, name .. ' ' .. index, 'px', ttl)
if index + 1 < parties then
  redis.call('hset', barrier, 'generation', name, 'parties', parties)
  redis.call('persist', barrier)
  redis.call('zadd', waiting, now + lease, party)
else
  local after = string.format('%.0f', math.max(generation + 1, now * 1000))
  redis.call('hset', barrier, 'generation', after, 'parties', parties)
  redis.call('pexpire', barrier, kept)
  redis.call('del', waiting)
  if publish ~= '' then
    redis.call(publish, channel, '1')
  end
end
return {name, index}
