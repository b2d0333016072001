-- share: give free permits to the first clients in *queue*, or tell all that they are free.

-- Share *free* permits; return whether a client was told that it is next, or when to look. All are
-- told if others listen, or if nobody can be served. So while others listen, nothing bounds how
-- often the first client is overtaken. *give* and *take_back* are those of `grant`.
local function share(free, give, take_back)
  local _, all, given = grant(free, nil, give, take_back)
  if all or not given
    and (redis.pcall('exists', queue) ~= 1 or not listening({}, {}) or others_listen) then
    redis.call(PUBLISH, channel, free)
  end
  return given
end
