-- limited_query: tell how many permits are held.
--
-- KEYS     permits
-- Returns  how many
local time = redis.call('time')
return redis.call('zcount', permits, '(' .. time[1] .. string.sub('00' .. math.floor(time[2] / 1000), -3), '+inf')
