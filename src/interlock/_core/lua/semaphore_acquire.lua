-- semaphore_acquire: take permits if enough are free; a call that arrives twice takes them once.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  request    string, the latch of this call: "<permits it took> <epoch>", "0" once it was
--                     undone
-- KEYS[3]  spent      string, the latch of an answered call, to be removed; if there is none, a
--                     key that never exists
-- KEYS[4]  total      string, "<all permits> <epoch>", as far as our clients have set it;
--                     may be left out, with all that follows
-- KEYS[5]  queue      zset {client: when it came, in ms}; may be left out, with all about it
-- ARGV[1]  permits    integer > 0
-- ARGV[2]  ttl        integer > 0, milliseconds that the latch is kept
-- ARGV[3]  client     string, "<client id>" or "<client id>::<permits>"; may be left out
-- ARGV[4]  channel    string, where waiters listen; may be left out
-- ARGV[5]  others_wait  1: others of the client wait, so it stays in the queue; may be left out
-- ARGV[6]  keep       integer > 0, milliseconds that the queue is kept; may be left out
--
-- Returns  1 when taken, 2 when taken without a place while others stand in the queue, and four
--          times the epoch of the number, if it is known; 0 when too few are free, or the call was
--          undone
-- Source   RSemaphore.tryAcquire, Redisson 4.7.0
-- Wire     the number; the latches are the caller's own. Claims in the queue, and messages on wake
--          channels, are ours alone; this code is our own
local semaphore, request, spent, total, queue = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local permits, ttl, client, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local others_wait, keep = ARGV[5], ARGV[6]

-- include: epoch_of

local taken = redis.call('get', request)
if taken then
  return taken == '0' and 0 or 1 + 4 * tonumber(string.match(taken, ' (%d+)$'))
end
local free = tonumber(redis.call('get', semaphore) or 0)
if not free then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
-- The commands get the string *permits*: the server takes long to turn a number into a string.
local wanted, epoch = tonumber(permits), epoch_of()
local enough = free >= wanted
if not client then
  local answer = 0
  if enough then
    redis.call('decrby', semaphore, permits)
    redis.call('set', request, permits .. ' ' .. epoch, 'px', ttl)
    -- This call overtook those in the queue. So its client stands there from now on.
    answer = queue and redis.pcall('exists', queue) == 1 and 2 or 1
    answer = answer + 4 * tonumber(epoch)
  end
  redis.call('del', spent)
  return answer
end

-- include: join

-- include: members

-- include: microseconds

-- include: grant

-- include: share

local queued, stands, woken = redis.pcall('exists', queue) == 1, false, false
if queued then
  -- A client that was woken takes its permits, unless one without a place was faster.
  woken = redis.pcall('zrem', queue, '+' .. client) == 1
  if not woken and free > 0 then
    stands = join(client)
    if stands then
      local mine, all = grant(free, client)
      enough = mine or (all and enough)
    end
  end
end
if enough then
  redis.call('decrby', semaphore, permits)
  redis.call('set', request, permits .. ' ' .. epoch, 'px', ttl)
  leave(client)
  if free > wanted and (queued or others_wait == '1') then
    local _, all = grant(free - wanted)
    if all and others_wait == '1' then
      -- All other clients have been told already.
      local id, _, wish = read_member(client)
      send(id, '0' .. wish)
    end
  end
else
  if not stands then
    join(client)
  end
  if woken and free > 0 then
    -- Too few are left for this client, whose claim is over. They may be enough for others.
    share(free)
  end
end
redis.call('del', spent)
return enough and 1 + 4 * tonumber(epoch) or 0
