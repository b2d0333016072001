-- front (part): who is the first in the queue whose client listens.
-- include: places

-- Return the first member whose client listens, or cannot, its client and its number. *found* is the
-- front with its score, if that is known. Who does not listen loses its place. After a thousand of
-- those it is nil, as if nobody waited: then all are told, and look. Where the question is refused, and
-- before a listener whom this client cannot tell anything, nobody waits, and no place is removed.
local function first(found)
  for _ = 1, 1000 do
    found = found or redis.call('zrange', queue, '0', '0', 'withscores')
    if not found[1] then
      return nil
    end
    local client, number = string.match(found[1], '^([^:]*):([^?]*)')
    if string.sub(found[2], 1, 1) == '-' then
      forget(client)
    else
      local reached = reachable(found[1], client)
      if reached or reached == nil then
        return reached and found[1], client, number
      end
      redis.call('zrem', queue, found[1])
    end
    found = nil
  end
end
