-- forced_note_read: tell why a lock was released by force, and remove the note.
--
-- If there is no note, tell how long the server has run: a restart may explain the loss.
--
-- KEYS     note
-- Returns  the text; if there is none, or it is too long for a note (it stays then), the seconds
--          since the server was started; nil if it does not tell that
local LONGEST = 2000

local text = redis.call('strlen', note) <= LONGEST and redis.call('get', note)
if text then
  redis.call('del', note)
  return text
end
local info = redis.pcall('info', 'server')
local runs = type(info) == 'string' and string.match(info, 'uptime_in_seconds:(%d+)')
return runs and tonumber(runs)
