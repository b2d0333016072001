-- clock: tell the time. A server that refuses TIME in scripts tells it by the time to live of a
-- key.

local function clock()
  local time = redis.pcall('time')
  if time[1] then return time end
  local left = redis.call('pttl', KEYS[1])
  if left == -2 then
    redis.call('del', KEYS[1])
    redis.call('set', KEYS[1], '', 'pxat', '4102444800000')
  else
    redis.call('pexpireat', KEYS[1], '4102444800000')
  end
  local now = 4102444800000 - redis.call('pttl', KEYS[1])
  if left == -2 then
    redis.call('del', KEYS[1])
  elseif left == -1 then
    redis.call('persist', KEYS[1])
  else
    redis.call('pexpireat', KEYS[1], string.format('%.0f', now + math.max(left, 1)))
  end
  return {string.format('%.0f', math.floor(now / 1000)), string.format('%.0f', now % 1000 * 1000)}
end
