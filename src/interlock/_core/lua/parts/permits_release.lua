-- permits_release (part): give back permits and a place, and let in the first ones if they fit.
local stood = queue and redis.call('zrem', queue, holder, holder .. '?') or 0
local held = give_back(holder)
expire()
if queue then
  local one, client, number = first()
  if one and others and how == '1' and held then
    announce(1)
    if string.sub(one, -1) ~= '?' then
      redis.pcall(PUBLISH, wakes .. client, number)
    end
    return 1
  end
  local caller = held and how ~= '-' and string.match(holder, '^[^:]*') or ''
  local ours, told = advance(caller, '1', nil)
  if ours then
    return {ours, told}
  end
end
if held and nobody then
  announce(held)
end
return held and 1 or stood > 0 and 0 or nil
