-- forced_note_read: tell why a lock was released by force, and remove the note.
--
-- KEYS[1]  note  string, why
--
-- Returns  the text; nil if there is none, or if it is too long for a note (it stays then)
-- Source   none
-- Wire     the key is ours; Java does not look at it
local note = KEYS[1]
local LONGEST = 2000

local text = redis.call('strlen', note) <= LONGEST and redis.call('get', note)
if text then
  redis.call('del', note)
end
return text
