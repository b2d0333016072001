-- semaphore_undo: undo an interrupted call, and make it do nothing from now on.
--
-- This gives back what the call took, or takes back what it gave.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, the latch of that call: the permits it took, negative if it gave
--                     some, and the epoch, if it is known; "0" once it was undone
-- KEYS[3]  total      string, "<all permits> <epoch>", as far as our clients have
--                     set it; may be left out
-- ARGV[1]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[2]  channel    string, where waiters listen
-- ARGV[3]  added      1: the call has changed the number of all permits, too; else 0
--
-- Returns  1
-- Source   our own
-- Wire     the number, and its new value on the channel if it changed and is not negative
local semaphore, request, total = KEYS[1], KEYS[2], KEYS[3]
local ttl, channel, added = ARGV[1], ARGV[2], ARGV[3]

-- include: epoch_of

local done = redis.call('get', request) or '0'
local taken, epoch = string.match(done, '^(-?%d+) ?(%d*)$')
-- If the number was made anew since, the call has not changed it.
local old = total and epoch ~= '' and epoch ~= '0' and epoch ~= epoch_of()
-- When memory is full, the server lets a DEL through, and then all writes that follow. Permits
-- must come back even then.
redis.call('del', request)
if taken ~= '0' and not old and redis.call('exists', semaphore) == 1 then
  local free = redis.call('incrby', semaphore, taken)

  -- include: change_total

  if total and added == '1' then
    change_total(taken, true)
  end
  if free >= 0 then
    redis.call(PUBLISH, channel, free)
  end
end
redis.call('set', request, 0, 'px', ttl)
return 1
