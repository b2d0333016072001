-- longest_of_others: return the longest lease of the readers of *lock* besides *holder*, or -2.
--
-- The function removes the dead readers that it finds. With *enough*, it looks no further after a
-- lease of that length. The keys of the readers' entries begin with *prefix*.
local function longest_of_others(enough)
  local longest, fields = -2, redis.call('hgetall', lock)
  for i = 1, #fields, 2 do
    local reader, left = fields[i], -2
    if reader ~= holder and reader ~= 'mode' and longest < (enough or math.huge) then
      -- Bounded: a huge depth, written by another program, must not stall the server.
      for n = 1, math.min(tonumber(fields[i + 1]), 1000) do
        left = math.max(left, redis.call('pttl', prefix .. reader .. ':rwlock_timeout:' .. n))
      end
      if left == -2 then
        redis.call('hdel', lock, reader)
      end
      longest = math.max(longest, left)
    end
  end
  return longest
end
