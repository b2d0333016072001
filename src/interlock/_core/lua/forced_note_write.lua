-- forced_note_write: leave a note for a holder that is about to lose its lock by force.
--
-- KEYS[1]  note  string, why
-- ARGV[1]  text  string, why
-- ARGV[2]  keep  integer > 0, milliseconds for which the holder may ask
--
-- Returns  1
-- Source   none
-- Wire     the key is ours; Java does not look at it
local note, text, keep = KEYS[1], ARGV[1], ARGV[2]

redis.call('set', note, text, 'px', keep)
return 1
