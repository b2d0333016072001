-- make (part): make a missing semaphore with the number that is *named*, if one is.
local made = not free and named ~= ''
if made then
  redis.call('set', semaphore, named)
  if total then
    redis.call('set', total, named)
  end
  free = named
end
