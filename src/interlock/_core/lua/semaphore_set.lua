-- semaphore_set: set the number of all permits, taken and free, and tell the waiters.
--
-- A call counts once, however often it arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits; negative while too many are taken
-- KEYS[2]  total      string, "<all permits> <epoch>", as far as our clients have set it
-- KEYS[3]  request    string, the latch of this call: the answer to it
-- KEYS[4]  spent      string, the latch of an answered call, to be removed; if there is none, a
--                     key that never exists
-- ARGV[1]  permits    integer >= 0
-- ARGV[2]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[3]  channel    string, where waiters listen
--
-- Returns  1 when set, 0 when the semaphore exists and its total is not known
-- Source   our own; RPermitExpirableSemaphore.setPermits, Redisson 4.7.0, does the same for leases
-- Wire     the number, whose TTL stays, and its new value on the channel if there are more; the
--          total is ours alone
local semaphore, total, request, spent = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local permits, ttl, channel = ARGV[1], ARGV[2], ARGV[3]

local before = redis.call('get', request)
if before then
  return tonumber(before)
end
local free, known = redis.call('get', semaphore), redis.call('get', total)
known = known and string.match(known, '^(-?%d+) ?%d*$')
if not tonumber(free or 0) or (not known and redis.call('exists', total) == 1) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
redis.call('del', spent)
if free and not known then
  redis.call('set', request, 0, 'px', ttl)
  return 0
end

-- include: begin_epoch

-- include: change_total

local more = tonumber(permits)
if free then
  -- If more are free than there should be, somebody has released more than was taken.
  more = more - math.max(tonumber(known), tonumber(free))
end
local now = redis.call('incrby', semaphore, more)
if free then
  change_total(permits)
else
  begin_epoch(permits)
end
redis.call('set', request, 1, 'px', ttl)
if more > 0 and now > 0 then
  redis.call(PUBLISH, channel, now)
end
return 1
