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

-- Wakes the first in the queue, as long as there are permits for them. Each has a claim to its
-- permits for 250 ms: "+" and its name, with the end of the claim as a negative score.
-- A client that does not listen, or did not take them, loses its place. One that wants more than
-- are free is passed over for 8 s. For the next 2 s nobody behind it is woken, and so on. The
-- function tells whether *caller* is among the first, and whether a message was refused.
-- semaphore_acquire has the same one.
local function serve(free, caller)
  local time, claims, gone, woken, mine, refused = redis.pcall('time'), {}, {}, {}, false, false
  local now, at, later = (time[1] or 0) * 1000 + math.floor((time[2] or 0) / 1000), 0, 0
  local numsub = publish == 'PUBLISH' and 'numsub' or 'shardnumsub'
  local function listens(member)
    local wake = 'interlock_semaphore_wake' .. name .. ':' .. string.match(member, '^[^:]*')
    local heard = redis.pcall('pubsub', numsub, wake)
    return member == caller or heard.err ~= nil or heard[2] > 0
  end
  while free > 0 and at < 128 do
    local part = redis.pcall('zrange', queue, at, at + 7, 'withscores')
    for i = 1, #part, 2 do
      local member, place = part[i], tonumber(part[i + 1])
      local claimed = place < 0 and string.sub(member, 2)
      local wants = tonumber(string.match(claimed or member, ':(%d+)$') or 1)
      if claimed then
        claims[claimed] = true
        -- One that ends much later is from before the clock was set back.
        if place + 1e15 > now and place + 1e15 < now + 60000 then
          free = free - wants
        else
          gone[#gone + 1], gone[#gone + 2] = member, claimed
        end
      elseif not claims[member] and free > 0 then
        local kept = wants > free and (now - place) % 10000 - 8000 or -1
        if (wants <= free or kept >= 0 or later > 0) and not listens(member) then
          gone[#gone + 1] = member
        elseif later > 0 then
          woken[#woken + 1] = {member, later}
          free = 0
        elseif wants <= free then
          free = free - wants
          if member == caller then
            mine = true
          else
            woken[#woken + 1] = {member, 0}
          end
        elseif kept >= 0 then
          later = 2000 - kept
        end
      end
    end
    at = #part > 0 and at + 8 or 128
  end
  for _, member in ipairs(gone) do
    redis.pcall('zrem', queue, member)
  end
  for _, each in ipairs(woken) do
    local client, wants = string.match(each[1], '^([^:]*)(.*)$')
    local wake = 'interlock_semaphore_wake' .. name .. ':' .. client
    if type(redis.pcall(publish, wake, each[2] .. wants)) ~= 'number' then
      refused = true
    elseif each[2] == 0 then
      redis.pcall('zadd', queue, now + 250 - 1e15, '+' .. each[1])
    end
  end
  return mine, refused
end

local _, refused = serve(free)
if refused or redis.pcall('exists', queue) ~= 1 then
  -- The user may not tell them, or nobody of them listens any more.
  redis.call(publish, channel, free)
end
return 1
