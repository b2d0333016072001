-- latch_change: set the count of a latch, take one from it, or delete the latch; once for each call.
--
-- An open latch looks like one that was never set. So a key of its own tells that it was set up with
-- the count that the code of a client names, which is done once in its life.
--
-- KEYS     latch, request, ending, total?
-- ARGV     number, ttl, how, count, idle, channel, client, kept
-- Returns  to make or delete it: 1 when done, else 0. Else the count that it was set up with, now or
--          before; if that is not known because another program has set the count, what is left of
--          it, below 0; 0 when nobody has set it
-- Source   RCountDownLatch.trySetCount, countDown and delete
-- Wire     the count, which is removed at 0. On the channel "0" when it opens, "1" when it is set or
--          deleted; the total is ours alone

-- include: once

local left, known = redis.call('get', latch), total and redis.call('get', total)
-- include: number(left, the count of a latch), number(known, the count of a latch)
redis.call('del', request) -- a full server refuses most writes, but only as the first one
local sets = not left and count ~= '' and (how == 'make' or total and not known)
if sets then
  if known or how ~= 'make' then
    redis.call('set', total, count)
  end
  redis.call('set', latch, count)
  redis.pcall(PUBLISH, channel, '1')
end

local answer
if how == 'make' then
  answer = sets and 1 or 0
elseif how == 'delete' then
  answer = redis.call('del', latch)
  if answer == 1 then
    redis.call('set', ending, 'deleted ' .. client .. ':' .. number, 'px', kept)
    redis.pcall(PUBLISH, channel, '1')
  end
  if total and redis.call('del', total) == 1 then
    answer = 1
  end
else
  answer = sets and count or known or '-' .. (left or '0')
end
-- Also if the latch is open: a copy must not count down the next one.
redis.call('set', request, number .. ' ' .. answer, 'px', ttl)
if how == 'down' and (left or sets) then
  local now = redis.call('decr', latch)
  if now <= 0 then
    redis.call('del', latch)
  end
  if now == 0 then
    redis.call('set', ending, 'open ' .. client .. ':' .. number, 'px', kept)
    redis.pcall(PUBLISH, channel, '0')
  end
end

-- include: idle(latch, total)

return tonumber(answer)
