-- pace (part): who cannot listen asks again after a quarter of the time for which the lock has been
-- held, or, if nobody was granted it, for which he has waited: after 5 to 100 ms.
if deaf ~= '' and left ~= -2 then
  local front = redis.call('zrange', queue, '0', '0', 'withscores')[2]
  local since = string.sub(front, 1, 1) == '-' and now + front or now - redis.call('zscore', queue, member)
  left = math.min(left == -1 and 100 or left, 100, math.max(5, math.floor(since / 4000)))
end
