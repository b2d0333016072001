-- card_holder: return what a client's card says of its client and of one hold.
--
-- KEYS[1]  card   hash, of card_write
-- ARGV[1]  field  string, "h <holder> <key>"
-- ARGV[2]  limit  integer > 0, bytes of the longest value that is returned
--
-- Returns  {JSON, JSON}; an empty text for what is missing or longer
-- Source   none
-- Wire     nothing is written
local card, field, limit = KEYS[1], ARGV[1], tonumber(ARGV[2])

local client = redis.call('hget', card, 'client') or ''
local hold = redis.call('hget', card, field) or ''
return {#client > limit and '' or client, #hold > limit and '' or hold}
