-- microseconds: return the server's time in microseconds, as a string; nil without the right to it.
--
-- A Lua number has too few digits when it becomes a string.
local function microseconds()
  local time = redis.pcall('time')
  return time[1] and time[1] .. string.sub('00000' .. time[2], -6)
end
