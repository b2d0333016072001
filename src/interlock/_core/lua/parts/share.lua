-- share: give free permits to the first clients in *queue*, or tell all that they are free.

-- Return whether all who listen stand in the queue. Others that listen, as Java does, are not woken
-- one by one: the first to ask gets the permits.
local function nobody_else_listens()
  local heard = redis.pcall('pubsub', NUMSUB, channel, waiting)
  return not heard.err and heard[2] <= heard[4]
end

-- Share *free* permits; return whether a client was told that it is next, or when to look. All are
-- told if others listen, or if nobody can be served. So while others listen, nothing bounds how
-- often the first client is overtaken. *give* and *take_back* are those of `serve`.
local function share(free, give, take_back)
  local all, given, _ = true, false
  if nobody_else_listens() then
    _, all, given = serve(free, nil, give, take_back)
  end
  if all or not given and redis.pcall('exists', queue) ~= 1 then
    redis.call(PUBLISH, channel, free)
  end
  return given
end
