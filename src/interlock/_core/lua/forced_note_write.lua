-- forced_note_write: leave a note for a holder that is about to lose its lock by force.
--
-- KEYS     note
-- ARGV     text, keep
-- Returns  1

redis.call('set', note, text, 'px', keep)
return 1
