-- semaphore_add: add permits for good, or take them away, and tell the waiters.
--
-- A call counts once, however often it arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, the latch of this call: the permits it took, negative if it gave
--                     some, and the epoch, if it is known; "0" if it did nothing
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; if there is none, a
--                     key that never exists
-- KEYS[4]  total      string, "<all permits> <epoch>", as far as our clients have set it;
--                     may be left out
-- ARGV[1]  permits    integer, not 0
-- ARGV[2]  create     1: create a missing semaphore; 0: do nothing if it is missing
-- ARGV[3]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[4]  channel    string, where waiters listen
--
-- Returns  1 when done, 0 when it is missing and not created
-- Source   RSemaphore.addPermits, Redisson 4.7.0
-- Wire     the number, whose TTL stays, and its new value on the channel unless it is negative:
--          Java's listener fails on that; the total is ours alone
local semaphore, request, spent, total = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local permits, create, ttl, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local old = false

-- include: give_permits

-- include: begin_epoch

-- include: change_total

-- include: epoch_of

if total and not before then
  begin_epoch(permits)
elseif total then
  change_total(permits, true)
end
if total then
  redis.call('set', request, -permits .. ' ' .. epoch_of(), 'px', ttl)
end
if free >= 0 then
  redis.call(PUBLISH, channel, free)
end
return 1
