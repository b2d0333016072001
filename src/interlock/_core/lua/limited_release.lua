-- limited_release: give back permits and a place, and let in the first of the queue if they fit.
--
-- It is also how a waiter gives up. Repeated, it changes nothing.
--
-- KEYS[1]  permits  zset {"<client>:<number>.<i>": its end, epoch milliseconds by the server's clock}
-- KEYS[2]  queue    zset, as for limited_ask; may be left out
-- ARGV[1]  holder   string, as for limited_ask
-- ARGV[2]  channel  string, on which nobody else listens
-- ARGV[3]  how      as for lock_release; may be left out
--
-- Returns  as read_release
-- Source   our own
-- Wire     none: Redisson has no such thing
local permits, queue = KEYS[1], KEYS[2]
local holder, channel, how = ARGV[1], ARGV[2], ARGV[3]

-- include: front

-- include: limited

-- include: permits

-- include: permits_release
