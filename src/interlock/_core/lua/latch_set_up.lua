-- latch_set_up: set the count that the code of a client names, once in the life of a latch.
--
-- An open latch looks like one that was never set. So a key of its own tells that it was set up.
-- A call counts once, however often it arrives.
--
-- KEYS     latch, request, total
-- ARGV     number, count, ttl, idle, channel
--
-- Returns  the count that it was set up with, now or before; if that is not known because another
--          program has set the count, what is left of it, below 0
-- Wire     the count, and "1" on the channel when it is set; the total is ours alone

-- include: once, named_count

redis.call('set', request, number .. ' ' .. (known or '-' .. left), 'px', ttl)

-- include: idle(latch, total)

return tonumber(known or '-' .. left)
