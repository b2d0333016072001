-- barrier_arrive: count a party, or keep it alive; the last one lets all pass. A dead party breaks it.
--
-- KEYS[1]  waiting  zset {party: when its lease ends, epoch milliseconds}; of a broken barrier {"": inf}
-- KEYS[2]  ended    zset {party: when it ended, in seconds, and six digits for its index; negative: it
--                   did not pass}
-- ARGV[1]  party    string, "<client>:<number>", which is never used again
-- ARGV[2]  parties  integer > 0, how many pass together
-- ARGV[3]  lease    integer > 0, milliseconds that the party lives without a look
-- ARGV[4]  keep     integer > 0, milliseconds that ends are remembered: at least two leases
-- ARGV[5]  wakes    string, what begins the channel of each client
-- ARGV[6]  look     "1": it has arrived before. If it is unknown, the server has lost its data. May be
--                   left out
--
-- Returns  nil while it waits; its index when it passed; -1 when it did not, or the barrier is broken
-- Source   threading.Barrier of Python 3.13
-- Wire     ours alone: Redisson has no such object
local waiting, ended, party, parties = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
local lease, keep, wakes, look = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]

-- include: barrier

local known = result(party)
if known then
  return known
end
local broken = redis.call('zscore', waiting, '')
if broken or look and not redis.call('zscore', waiting, party) then
  redis.call('pexpire', waiting, broken and HOUR or keep) -- first: a full server refuses no PEXPIRE
  note(party)
  return noted(-1)
end
if redis.call('zcount', waiting, '-inf', now) > 0 then
  breaks()
  note(party)
  return noted(-1)
end
redis.call('zadd', waiting, now + lease, party)
redis.call('pexpire', waiting, keep)
if redis.call('zcard', waiting) < parties then
  return nil
end
finish(true)
return noted(result(party))
