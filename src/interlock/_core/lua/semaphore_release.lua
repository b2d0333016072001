-- semaphore_release: add permits, or take some away for good, and tell the waiters; once, however often it arrives.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, the latch of this call: the permits it took, negative when it gave some
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; a key that is never there if there is none
-- ARGV[1]  permits    integer, not 0
-- ARGV[2]  create     1: make a semaphore that is missing; 0: leave it so
-- ARGV[3]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[4]  publish    string, PUBLISH, SPUBLISH, or empty for no message
-- ARGV[5]  channel    string, where waiters listen
--
-- Returns  1 when done, 0 when it is missing
-- Source   RSemaphore.release, releaseIfExists and addPermits, Redisson 4.7.0
-- Wire     the number, and its new value on the channel unless negative, by which Java's listener fails; this text is our own
local semaphore, request, spent, permits, create, ttl, publish, channel = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if redis.call('exists', request) == 1 then
  return 1
end
local before = redis.call('get', semaphore)
if not tonumber(before or 0) then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
-- A DEL is let through when memory is full, and with it all that follows: permits must come back even then.
redis.call('del', spent)
if not before and create == '0' then
  return 0
end
local free = redis.call('incrby', semaphore, permits)
-- Kept as a text, for the same reason as in semaphore_acquire.
local less = string.sub(permits, 1, 1) == '-'
redis.call('set', request, less and string.sub(permits, 2) or '-' .. permits, 'px', ttl)
if free < 0 or publish == '' then
  return 1
end
local name = string.match(channel, ':.*')
local queue = 'interlock_semaphore_queue' .. name
local queued = free > 0 and redis.pcall('exists', queue) == 1
if queued then
  local numsub = publish == 'PUBLISH' and 'numsub' or 'shardnumsub'
  local heard = redis.pcall('pubsub', numsub, channel, 'interlock_semaphore_waiting' .. name)
  -- All hear of it if others listen, as Java and earlier releases do.
  queued = not heard.err and heard[2] <= heard[4]
end
if not queued then
  redis.call(publish, channel, free)
  return 1
end

-- include: serve

local _, all = serve(free)
if all or redis.pcall('exists', queue) ~= 1 then
  -- The user may not tell them, or nobody among the first of them listens any more.
  redis.call(publish, channel, free)
end
return 1
