-- refusal (part): what one that stands in the queue is told: *answer*, as of lock_ask. Who cannot listen
-- asks again after a quarter of the time for which the lock has been held, or, if nobody was granted
-- it, for which he has waited: after 5 to 100 ms.
if deaf ~= '' and left ~= -2 then
  local front = redis.call('zrange', queue, '0', '0', 'withscores')[2]
  local since = string.sub(front, 1, 1) == '-' and now + front or now - redis.call('zscore', queue, member)
  left = math.min(left == -1 and 100 or left, 100, math.max(5, math.floor(since / 4000)))
end
local answer = {left, now, 1, 1, '', place}
if joined == 0 then
  local late = missed and missed(deaf == '' and 100000 or 0)
  answer = {left, now, redis.call('zcard', queue), 0, late or '', score}
end
