-- limited_acquire: take permits within a limit, unless somebody waits.
--
-- KEYS[1]  permits  zset {"<client>:<number>.<i>": its end, epoch milliseconds by the server's clock}
-- KEYS[2]  queue    zset, as for limited_ask; may be left out
-- ARGV[1]  lease    integer > 0, milliseconds
-- ARGV[2]  holder   string, as for limited_ask
-- ARGV[3]  channel  string, on which nobody else listens
--
-- Returns  nil when taken; else milliseconds until a lease ends (-1: none; -2: it is left to others)
-- Source   our own
-- Wire     none: Redisson has no such thing
local permits, queue = KEYS[1], KEYS[2]
local lease, holder, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3]

-- include: front

-- include: limited

-- include: permits

-- include: permits_acquire
