-- free_permits (part): read how many are *free*. If there is no such semaphore, make one with *named*
-- permits, unless that is ''; then it is *made*.
local free, made = redis.call('get', semaphore), false
if not tonumber(free or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
redis.call('del', request) -- a full server refuses most writes, but only as the first one
if not free and named ~= '' then
  redis.call('set', semaphore, named)
  if total then
    redis.call('set', total, named)
  end
  free, made = named, true
end
