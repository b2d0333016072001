-- limited_query: tell how many permits are held.
--
-- KEYS     permits
-- Returns  how many

-- include: now

return redis.call('zcount', permits, '(' .. now, '+inf')
