-- microseconds: return the server's time in microseconds, as a string; nil without the right to it.
--
-- A script asks for it once. A Lua number has too few digits when it becomes a string.
local asked_at
local function microseconds()
  if asked_at == nil then
    local time = redis.pcall('time')
    asked_at = time[1] and time[1] .. string.sub('00000' .. time[2], -6) or false
  end
  return asked_at or nil
end
