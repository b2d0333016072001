-- give_on: give the lock of *holder* to a client in the queue, or free it; the script ends here.
--
-- *draw*, if it is given, returns what the message tells of a new token, or nil if there is none.
-- It needs `pass_on`. The names are those of lock_release.

-- The key never goes away in between: while its slot moves, a script cannot make it anew.
local function give(next, needs)
  local told = needs == '' and '' or draw and draw()
  if told then
    redis.call('hset', lock, next, '1')
    redis.call('hdel', lock, holder)
    redis.call('pexpire', lock, CLAIM)
  end
  return told
end

local next = pass_on(give)
if type(next) ~= 'string' then
  redis.call('del', lock)
elseif not string.find(next, ':', 1, true) then
  give(next .. ':0', '')
end
if not next then
  redis.call(PUBLISH, channel, '0')
end
local ours = string.match(holder, '^[^:]*')
if type(next) == 'string' and string.match(next, '^[^:]*') == ours then
  return 2
end
return next and 3 or 1
