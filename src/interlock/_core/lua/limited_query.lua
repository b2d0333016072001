-- limited_query: tell how many permits are held.
--
-- KEYS[1]  permits  zset {"<client>:<number>.<i>": its end, epoch milliseconds by the server's clock}
--
-- Returns  how many
-- Source   our own
-- Wire     none: Redisson has no such thing
local permits = KEYS[1]
local time = redis.call('time')
return redis.call('zcount', permits, '(' .. time[1] .. string.sub('00' .. math.floor(time[2] / 1000), -3), '+inf')
