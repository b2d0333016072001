-- Set the number of all permits in the key *total*, or add to it. Its epoch stays, and it ends when
-- the number of free ones does.
local function change_total(number, add)
  local value, ttl = redis.call('get', total), redis.call('pttl', semaphore)
  local before, rest = string.match(value or '', '^(-?%d+)(.*)$')
  if not before then
    return
  end
  number = add and before + number or number
  redis.call('set', total, string.format('%d', number) .. rest)
  if ttl > 0 then
    redis.call('pexpire', total, ttl)
  end
end
