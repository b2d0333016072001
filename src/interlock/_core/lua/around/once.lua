-- once: the release of another client's hold takes effect once.
--
-- If the last argument is `once TTL`, the last key has the answer of the first copy for TTL
-- milliseconds. Copies that come later do nothing, and give that answer. A user without the right
-- to this key runs the release without it.

local ttl, first, request = string.match(ARGV[#ARGV], '^once (%d+)$'), KEYS[1]
if ttl then
  ARGV[#ARGV] = nil
  request = table.remove(KEYS)
  KEYS[1] = request
  local before = redis.pcall('get', KEYS[1])
  KEYS[1] = first
  if type(before) == 'string' then return tonumber(before) end
end
local function breaks()
  SCRIPT()
end
local answer = breaks()
local number = tonumber(answer or 0)
if ttl and number then
  KEYS[1] = request
  redis.pcall('set', KEYS[1], number, 'px', ttl)
end
return answer
