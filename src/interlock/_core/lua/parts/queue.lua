-- queue (part): who stands in the queue, who of them listens, and who is next.
--
-- A member is the id of the hold that it will be, and "?" if its client cannot listen. Its score is
-- when it came, in microseconds of the server's clock. A member that was granted the lock keeps its
-- place, with a minus, until it releases: if the lock is free and such a mark is left, its client did
-- not release in time.

-- include: front, missed

-- Make *one* the holder, for 3 s or its shorter lease; *open* is 1 if a release gives the lock, 0 if
-- a look does. The *caller*'s own client reads the news in the reply; who cannot listen finds out.
local function grant(one, client, number, caller, open)
  redis.call('hset', lock, client .. ':' .. number, '1')
  redis.call('pexpire', lock, string.match(number, '/(%d+)') or GRANT)
  redis.call('zadd', queue, 'xx', '-' .. now, one)
  local told = now .. '|' .. (draw and string.format('%.0f', draw(true)) or '') .. '|' .. open
  if client == caller then
    return {number, told}
  end
  if string.sub(one, -1) ~= '?' then
    redis.pcall(PUBLISH, wakes .. client, number .. '|' .. told)
  end
  return 1
end
