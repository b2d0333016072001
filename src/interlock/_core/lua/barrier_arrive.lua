-- barrier_arrive: count a party as arrived, and end the generation if all parties are there.
--
-- A call counts once, however often it arrives.
--
-- The party's index is the number of parties that wait. If a party has left, the index is the
-- lowest free place. So no two parties that wait have the same index.
--
-- KEYS[1]  barrier  hash: generation, parties, broken if it is, places, place:{party} of each party
-- KEYS[2]  waiting  zset {party: when its lease ends, epoch milliseconds by the server's clock}
-- KEYS[3]  passed   zset {generation that passed: when, epoch milliseconds}
-- KEYS[4]  request  string, the answer to this call, for copies of it: "<generation> <index>", or
--                   "<parties> -2"; index -1 also if the party has left
-- KEYS[5]  spent    string, the same of an answered call, to be removed; or a key that never exists
-- ARGV[1]  party    string, an id that nobody else has
-- ARGV[2]  parties  integer > 0, how many parties end a generation
-- ARGV[3]  lease    integer > 0, milliseconds for which the party counts as alive without a renewal
-- ARGV[4]  ttl      integer > 0, milliseconds that the request is remembered
-- ARGV[5]  kept     integer > 0, milliseconds that an idle barrier is remembered
-- ARGV[6]  channel  string, where parties listen
--
-- Returns  {generation, index}; index -1 if the barrier is broken; {parties, -2} if it is in use
--          with another number of parties
-- Source   threading.Barrier of Python 3.13
-- Wire     ours alone: Redisson has no such object
local barrier, waiting, passed, request, spent = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local party, parties, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ttl, kept, channel = ARGV[4], ARGV[5], ARGV[6]

local before = redis.call('get', request)
if before then
  local generation, index = before:match('^(%d+) (-?%d+)$')
  return {generation, tonumber(index)}
end
local known = redis.call('hmget', barrier, 'generation', 'parties', 'broken', 'places')
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- When memory is full, the server lets a DEL through, and then all writes that follow.
redis.call('del', spent)
local index = redis.call('zcard', waiting)
if tonumber(known[2] or parties) ~= parties and (index > 0 or known[3]) then
  redis.call('set', request, known[2] .. ' -2', 'px', ttl)
  return {known[2], -2}
end
local generation = tonumber(known[1] or now * 1000)
if not known[3] and redis.call('zcount', waiting, '-inf', now) > 0 then
  known[3] = '1'
  redis.call('hset', barrier, 'broken', 1)
  redis.call('del', waiting)
  redis.call(PUBLISH, channel, '0')
end
local name = string.format('%.0f', generation)
if known[3] then
  redis.call('pexpire', barrier, kept)
  -- A copy that arrives after a reset must not count.
  redis.call('set', request, name .. ' -1', 'px', ttl)
  return {name, -1}
end
local place, places = index, tonumber(known[4] or 0)
if places ~= index then
  -- A party has left.
  local fields, taken = redis.call('hgetall', barrier), {}
  places = 0
  for i = 1, #fields, 2 do
    local other, at = fields[i]:match('^place:(.*)$'), fields[i + 1]
    if other and redis.call('zscore', waiting, other) then
      taken[at] = true
      places = math.max(places, tonumber(at) + 1)
    elseif other then
      redis.call('hdel', barrier, fields[i])
    end
  end
  place = 0
  while taken[tostring(place)] do
    place = place + 1
  end
end
redis.call('set', request, name .. ' ' .. place, 'px', ttl)
if index + 1 < parties then
  redis.call('hset', barrier, 'generation', name, 'parties', parties)
  redis.call('hset', barrier, 'places', math.max(places, place + 1), 'place:' .. party, place)
  redis.call('zadd', waiting, now + lease, party)
  redis.call('pexpire', barrier, kept)
  redis.call('pexpire', waiting, kept)
else
  local after = string.format('%.0f', math.max(generation + 1, now * 1000))
  redis.call('del', barrier)
  redis.call('hset', barrier, 'generation', after, 'parties', parties)
  redis.call('pexpire', barrier, kept)
  redis.call('zadd', passed, now, name)
  redis.call('zremrangebyrank', passed, 0, -10001)
  redis.call('pexpire', passed, kept)
  redis.call('del', waiting)
  redis.call(PUBLISH, channel, '1')
end
return {name, place}
