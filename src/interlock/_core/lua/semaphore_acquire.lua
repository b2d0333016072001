-- semaphore_acquire: take permits if so many are free; a call that arrives twice takes them once.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, the latch of this call: the permits it took, "0" once it was undone
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; a key that is never there if there is none
-- ARGV[1]  permits    integer > 0
-- ARGV[2]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[3]  me         string, "<client id>" or "<client id>:<permits>"; may be left out
-- ARGV[4]  channel    string, where waiters listen; may be left out
-- ARGV[5]  more       1: others of the client wait, so it stays there; may be left out
-- ARGV[6]  keep       integer > 0, milliseconds that the queue is kept; may be left out
-- ARGV[7]  publish    string, PUBLISH or SPUBLISH; may be left out
--
-- Returns  1 when taken, 2 if others wait for it; 0 when too few are free, or it was undone
-- Source   RSemaphore.tryAcquire, Redisson 4.7.0
-- Wire     the number; the latches are the caller's own, the queue is ours; this text is our own
local semaphore, request, spent, permits, ttl = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local me, channel, more, keep, publish = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local taken = redis.call('get', request)
if taken then
  return taken == '0' and 0 or 1
end
local free = tonumber(redis.call('get', semaphore) or 0)
if not free then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
-- Sent on as a text: to turn a number into a text takes the server long.
local wanted = tonumber(permits)
local enough = free >= wanted
if not me then
  if enough then
    redis.call('decrby', semaphore, permits)
    redis.call('set', request, permits, 'px', ttl)
    -- It was before those in the queue: the client stands there from now on.
    local of = string.match(request, ':.*:')
    if redis.pcall('exists', 'interlock_semaphore_queue' .. string.sub(of, 1, -2)) == 1 then
      enough = 2
    end
  end
  redis.call('del', spent)
  return enough == 2 and 2 or enough and 1 or 0
end
local name = string.match(channel, ':.*')
local queue = 'interlock_semaphore_queue' .. name

-- At its end, unless it is there. Without the right to it the client hears what all hear.
local function stand_in_queue()
  local place = redis.pcall('zscore', queue, me)
  if place == false then
    local last, time = redis.pcall('zrange', queue, -1, -1, 'withscores'), redis.pcall('time')
    local now = (time[1] or 0) * 1000 + math.floor((time[2] or 0) / 1000)
    place = redis.pcall('zadd', queue, math.max(math.floor(last[2] or 0) + 1, now), me)
  end
  -- Never sooner: others may look less often.
  local left = redis.pcall('pttl', queue)
  if type(left) ~= 'number' or left < tonumber(keep) then
    redis.pcall('pexpire', queue, keep)
  end
  return type(place) ~= 'table'
end

-- Wakes the first in the queue, as long as there are permits for them. Each has a claim to its
-- permits for 250 ms: "+" and its name, with the end of the claim as a negative score.
-- A client that does not listen, or did not take them, loses its place. One that wants more than
-- are free is passed over for 8 s. For the next 2 s nobody behind it is woken, and so on. The
-- function tells whether *caller* is among the first, and whether a message was refused.
-- semaphore_release has the same one.
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

local queued, stands, woken = redis.pcall('exists', queue) == 1, false, false
if queued then
  -- Who was woken takes its permits, unless somebody without a place was faster.
  woken = redis.pcall('zrem', queue, '+' .. me) == 1
  if not woken and free > 0 then
    stands = stand_in_queue()
    local numsub = publish == 'PUBLISH' and 'numsub' or 'shardnumsub'
    local heard = redis.pcall('pubsub', numsub, channel, 'interlock_semaphore_waiting' .. name)
    -- Beside others that listen, and stand in no queue, the first to ask has the permits.
    if stands and not heard.err and heard[2] <= heard[4] then
      enough = serve(free, me)
    end
  end
end
if enough then
  redis.call('decrby', semaphore, permits)
  redis.call('set', request, permits, 'px', ttl)
  if queued then
    redis.pcall('zrem', queue, me)
  end
  if more == '1' then
    stand_in_queue()
  end
  if free > wanted and (queued or more == '1') then
    serve(free - wanted)
  end
else
  if not stands then
    stand_in_queue()
  end
  if woken and free > 0 then
    -- Too few are left for its claim, which is over. They may do for others.
    serve(free)
  end
end
redis.call('del', spent)
return enough and 1 or 0
