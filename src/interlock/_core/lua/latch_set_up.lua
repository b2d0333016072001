-- latch_set_up: set the count that the code of a client names, once in the life of a latch.
--
-- An open latch looks like one that was never set. So a key of its own tells that it was set up.
-- A call counts once, however often it arrives.
--
-- KEYS[1]  latch    string, the count
-- KEYS[2]  request  string, "<number> <answer>": the last call with this key
-- KEYS[3]  total    string, the count that it was set up with; it stays until the latch is deleted
-- ARGV[1]  number   integer of 12 digits, tells this call from those before it
-- ARGV[2]  count    integer > 0
-- ARGV[3]  ttl      integer > 0, milliseconds that the request is kept
-- ARGV[4]  idle     integer >= 0, milliseconds after its last use when it ends; 0: never
-- ARGV[5]  channel  string, where waiters listen
--
-- Returns  the count that it was set up with, now or before; if that is not known because another
--          program has set the count, what is left of it, below 0
-- Source   our own
-- Wire     the count, and "1" on the channel when it is set; the total is ours alone
local latch, request, total = KEYS[1], KEYS[2], KEYS[3]
local number, count, ttl, idle, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- include: once

-- include: named_count

redis.call('set', request, number .. ' ' .. (known or '-' .. left), 'px', ttl)

-- include: idle_latch

return tonumber(known or '-' .. left)
