-- semaphore_acquire: take permits if enough are free; a call that arrives twice takes them once.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, "<number> <permits that it took>": the last call with this key; 0
--                     permits if it was undone
-- KEYS[3]  total      string, the number of all permits, as far as our clients have set it; may be
--                     left out
-- ARGV[1]  number     integer of 12 digits, tells this call from those before it
-- ARGV[2]  permits    integer > 0
-- ARGV[3]  ttl        integer > 0, milliseconds that the request is kept
-- ARGV[4]  named      integer >= 0, how many there are if there is no such semaphore; "": none
-- ARGV[5]  idle       integer >= 0, milliseconds after its last use when it ends; 0: never
-- ARGV[6]  channel    string, where waiters listen
-- ARGV[7]  told       1: tell the numbers in any case
--
-- Returns  how many are free now, when taken; else {-1, the free ones (nil: no semaphore), all (nil:
--          not known)}, and the same with the number of free ones in front when taken, if they are to be *told*
-- Source   RSemaphore.tryAcquire, Redisson 4.7.0
-- Wire     the number, and the same on the channel when it is made; all else is ours alone
local semaphore, request, total = KEYS[1], KEYS[2], KEYS[3]
local number, permits, ttl, named = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local idle, channel, told = ARGV[5], ARGV[6], ARGV[7]

local last = redis.call('get', request)
if last and string.sub(last, 1, 12) >= number then
  return string.sub(last, 14) == permits and 0 or {-1, false, false}
end
local free, made = redis.call('get', semaphore), false
if not free and named ~= '' then
  redis.call('set', semaphore, named)
  if total then
    redis.call('set', total, named)
  end
  free, made = named, true
end
local left = tonumber(free or 0)
if not left then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
left = left - permits
if left >= 0 then
  redis.call('decrby', semaphore, permits)
  redis.call('set', request, number .. ' ' .. permits, 'px', ttl)
end

-- include: idle

if made then
  redis.call(PUBLISH, channel, left >= 0 and left or free)
end
if left >= 0 and told ~= '1' then
  return left
end
local all = total and tonumber(redis.call('get', total) or '')
return {left >= 0 and left or -1, tonumber(free or '') or false, all or false}
