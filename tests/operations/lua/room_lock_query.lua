-- room_lock_query: tell who holds the lock, how deep, and for how long.
--
-- KEYS[1]  lock    hash {holder: depth}
-- KEYS[2]  leases  zset {holder: its end, epoch milliseconds}
--
-- Returns  {milliseconds until the last lease ends (-2: not locked), holder, depth, holder, depth}
-- Source   none
-- Wire     nothing is written
local lock, leases = KEYS[1], KEYS[2]

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local answer, fields = {-2}, redis.call('hgetall', lock)
for i = 1, #fields, 2 do
  local left = tonumber(redis.call('zscore', leases, fields[i]) or 0) - now
  if left > 0 then
    answer[1] = math.max(answer[1], left)
    answer[#answer + 1] = fields[i]
    answer[#answer + 1] = fields[i + 1]
  end
end
return answer
