-- card_holder: return what a client's card says of its client and of one hold.
--
-- KEYS     card
-- ARGV     field, #limit
-- Returns  {JSON, JSON}; an empty text for what is missing or longer

local client = redis.call('hget', card, 'client') or ''
local hold = redis.call('hget', card, field) or ''
return {#client > limit and '' or client, #hold > limit and '' or hold}
