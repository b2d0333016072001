-- give_on: give the lock of *holder* to a client in the queue, or free it; return the answer.
--
-- A client gets a claim, which is the field "<client id>:0" and *side*. If it waits in the name of
-- a holder, that holder gets the lock. *news_of* is called with the wish of this holder. It returns
-- the end of the message, or nil if the holder cannot have this lock. *in_order* may be left out.
-- It needs `pass_on`.

-- The key never goes away in between: while its slot moves, a script cannot make it anew.
local function write(field)
  if side == ':write' then
    redis.call('hset', lock, 'mode', 'write', field, '1')
  else
    redis.call('hset', lock, field, '1')
  end
  redis.call('hdel', lock, holder)
  redis.call('pexpire', lock, CLAIM)
end

local function give(next, wish)
  local news = news_of(wish)
  if news then
    write(next .. side)
  end
  return news
end

local function give_on(in_order)
  local next = pass_on(give, in_order)
  if not next then
    redis.call(PUBLISH, channel, freed)
  end
  if type(next) ~= 'string' then
    redis.call('del', lock)
  elseif not string.find(next, ':', 1, true) then
    write(next .. ':0' .. side)
  end
  local client = type(next) == 'string' and string.match(next, '^[^:]*')
  if client and client == string.match(holder, '^[^:]*') then
    return 2
  end
  return next and 3 or 1
end
