-- locks_release: free several locks at once, but leave alone those that others wait for.
--
-- Those are released one by one (lock_release), because each goes to its first waiter.
--
-- KEYS[1..n]  key      first the locks, each a hash {holder: depth}; then the queue of each, a zset
--                      {client: when it came, in ms}
-- ARGV[1]     holder   string, "<client id>:<number>"
-- ARGV[2..n]  channel  string, where waiters listen, one for each lock
--
-- Returns  a list: 1 for a lock that is freed, 0 for one that this holder does not hold, 2 for one
--          that is left alone
-- Source   RedissonMultiLock, Redisson 4.7.0
-- Wire     the hashes, and "0" on the channel of each lock that is freed; this code is our own
local key, keys, holder, channels = KEYS[1], KEYS, ARGV[1], ARGV

local names, answers = {}, {}
for i, each in ipairs(keys) do
  names[i] = each
end
local count = #names / 2
for i = 1, count do
  key = names[count + i]
  local awaited = redis.pcall('exists', key) ~= 0
  key = names[i]
  local held = redis.pcall('hexists', key, holder)
  if held == 0 then
    answers[i] = 0
  elseif held ~= 1 or awaited then
    answers[i] = 2
  else
    redis.call('del', key)
    redis.call(PUBLISH, channels[i + 1], '0')
    answers[i] = 1
  end
end
return answers
