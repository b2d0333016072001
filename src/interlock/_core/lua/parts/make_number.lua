-- make_number: set a missing *number* to *count*, once for this *request*.
--
-- A copy, and a call that finds a number, end here. The names are those of semaphore_try_set.
local before = redis.call('get', request)
if before then
  return tonumber(before)
end
redis.call('del', spent)
local made = redis.call('set', number, count, 'nx') and 1 or 0
redis.call('set', request, made, 'px', ttl)
if made == 0 then
  return 0
end
