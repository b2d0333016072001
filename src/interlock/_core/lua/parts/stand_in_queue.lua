-- stand_in_queue: put *client* at the end of *queue*, unless it is there; keep it for *keep*.
-- Without the right to the queue the client hears what all hear. Numbers that nothing is done with
-- are sent as texts: to turn a number into a text takes the server long.
local function stand_in_queue()
  local last, time = redis.pcall('zrange', queue, '-1', '-1', 'withscores'), redis.pcall('time')
  local now = (time[1] or '') .. string.sub('00000' .. (time[2] or ''), -6, -4)
  if last[2] and tonumber(last[2]) >= tonumber(now) then
    now = math.floor(last[2]) + 1
  end
  local stands = redis.pcall('zadd', queue, 'nx', now, client)
  -- Never sooner: others may look less often.
  local left = redis.pcall('pttl', queue)
  if type(left) ~= 'number' or left < 0.8 * keep then
    redis.pcall('pexpire', queue, keep)
  end
  return type(stands) == 'number'
end
