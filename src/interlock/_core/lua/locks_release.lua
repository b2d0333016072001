-- locks_release: free several locks at once, but leave alone those that others wait for.
--
-- Those are released one by one (lock_release), because each goes to the first in its queue.
--
-- KEYS     key...
-- ARGV     told...
-- Returns  a list: 1 for a lock that is freed, 0 for one that this holder does not hold, 2 for one
--          that is left alone
-- Source   RedissonMultiLock
-- Wire     the hashes, and "0" on the channel of each lock that is freed

local names, answers, count = {}, {}, #ARGV / 2
for i, each in ipairs(KEYS) do
  names[i] = each
end
for i = 1, count do
  local awaited = true
  if names[count + i] then
    key = names[count + i]
    awaited = redis.pcall('exists', key) ~= 0
  end
  key = names[i]
  local held = redis.pcall('hexists', key, ARGV[i])
  if held == 0 then
    answers[i] = 0
  elseif held ~= 1 or awaited then
    answers[i] = 2
  else
    redis.call('del', key)
    redis.pcall(PUBLISH, ARGV[count + i], '0')
    answers[i] = 1
  end
end
return answers
