-- join (part): join at the end, or at the former place, unless it stands there; keep the queue.
if score then
  redis.call('zrem', queue, '') -- a full server refuses ZADD, but only as the first write
end
local last = redis.call('zrange', queue, '-1', '-1', 'withscores')
local came = tonumber(last[2] or 0)
local place = former ~= '' and former or came >= tonumber(now) and came + 1 or now
local joined = redis.call('zadd', queue, 'nx', place, member)
if redis.call('pttl', queue) < KEEP * 0.8 then
  redis.call('pexpire', queue, KEEP)
end
