-- forced_note_write: leave a note for a holder that is about to lose its lock by force.
--
-- KEYS     note
-- ARGV     text, keep
--
-- Returns  1
-- Source   none
-- Wire     the key is ours; Java does not look at it

redis.call('set', note, text, 'px', keep)
return 1
