-- limited_ask: take permits within a limit, or stand in the queue: strictly in order.
--
-- KEYS[1]  permits  zset {"<client>:<number>.<i>": its end, epoch milliseconds by the server's clock}
-- KEYS[2]  queue    zset {holder, and "?" if its client cannot listen: when it came, microseconds};
--                   may be left out
-- ARGV[1]  lease    integer > 0, milliseconds
-- ARGV[2]  holder   string, "<client>:<number>", with what limited tells
-- ARGV[3]  channel  string, on which nobody else listens
-- ARGV[4]  deaf     as for lock_ask
-- ARGV[5]  former   as for lock_ask
--
-- Returns  as lock_ask
-- Source   our own
-- Wire     none: Redisson has no such thing
local permits, queue = KEYS[1], KEYS[2]
local lease, holder, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local deaf, former = ARGV[4] or '', ARGV[5]

-- include: front

-- include: limited

-- include: permits

-- include: permits_ask
