-- leased_semaphore_acquire: take a leased permit for each id, or learn when the next lease ends.
--
-- A semaphore that ends by itself does not end before the lease.
--
-- KEYS[1]  semaphore  string, the number of free permits
-- KEYS[2]  leases     zset {id, 16 raw bytes: its end, epoch milliseconds by the server's clock}
-- KEYS[3]  queue      zset {client, or client and permit: when it came, in ms}; may be left out,
--                     with all about it
-- ARGV[1]  lease      integer > 0, milliseconds
-- ARGV[2]  ids        string, 32 hex digits each: sending them twice changes nothing
-- ARGV[3]  channel    string, where waiters listen
-- ARGV[4]  client     string, "<client id>::leased:<permits>"; may be left out
-- ARGV[5]  others_wait  1: others of the client wait, so it stays in the queue; may be left out
-- ARGV[6]  keep       integer > 0, milliseconds that the queue is kept; may be left out
-- ARGV[7]  starts     1: the client waits in the name of its permit, a single one, which a release
--                     may give to it; may be left out
--
-- Returns  nil when taken; else the milliseconds until the next lease ends (-1: none ends). With
--          *starts*, a list of this and the server's time, in microseconds, as a string
-- Source   RPermitExpirableSemaphore.tryAcquire, Redisson 4.7.0, with the server's clock
--          in place of the client's
-- Wire     the number and the zset; the new number on the channel when expired permits came back,
--          unless clients in the queue got them. Claims, and messages on wake channels, are ours
--          alone; this code is our own
local semaphore, leases, queue = KEYS[1], KEYS[2], KEYS[3]
local lease, ids, channel = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local client, others_wait, keep, starts = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local PERMANENT = 922337203685477

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expired = redis.call('zremrangebyscore', leases, 0, now)
if expired > 0 then
  redis.call('incrby', semaphore, expired)
end

-- include: raw

local members = {}
for id in ids:gmatch(('%x'):rep(32)) do
  members[#members + 1] = raw(id)
end
local held = redis.call('zscore', leases, members[1])
local free = tonumber(redis.call('get', semaphore) or 0)
if not free then
  return redis.error_reply('WRONGTYPE this is not a number of permits')
end
local wanted, claimed = #members, 0
local enough = free >= wanted
if held and wanted == 1 and tonumber(held) <= now + CLAIM then
  -- A release has given it this permit.
  held, claimed = false, 1
end
local queued = queue and (client or free > 0) and redis.pcall('exists', queue) == 1

local function take(claimed)
  if wanted > claimed then
    redis.call('decrby', semaphore, wanted - claimed)
  end
  for _, member in ipairs(members) do
    redis.call('zadd', leases, now + lease, member)
  end
  local ttl = redis.call('pttl', semaphore)
  if ttl > 0 and ttl < lease then
    -- Else the number would be set up again while the permits are held.
    redis.call('pexpire', semaphore, lease)
    ttl = lease
  end
  if ttl > 0 then
    redis.call('pexpire', leases, ttl)
  end
end

-- Return the milliseconds until the next lease ends. Claims become leases: of these only the last
-- one counts, if there is nothing else.
local function next_end()
  local ends = redis.call('zrange', leases, 0, 15, 'withscores')
  for i = 1, #ends, 2 do
    local remaining = tonumber(ends[i + 1])
    if string.sub(ends[i], 1, 4) ~= '\0\0\0\0' or i == #ends - 1 then
      return remaining < PERMANENT and remaining - now or -1
    end
  end
  return -1
end

if not queued and not client then
  -- Most often nobody waits. Then the functions below are not even created.
  if expired > 0 and free > 0 then
    redis.call(PUBLISH, channel, free)
  end
  if held then
    return nil
  end
  if claimed == 0 and not enough then
    return next_end()
  end
  take(claimed)
  return nil
end

-- include: join

-- include: members

-- include: microseconds

-- include: grant

-- include: share

-- include: claim_permits

local stands, mine, woken = false, false, false
local named = wanted == 1 and client and string.gsub(client, '::', ':' .. ids .. ':', 1) or client
local me = client
if starts and redis.pcall('zscore', queue, client) == false then
  me = named
end
if client and not held then
  if claimed == 0 and wanted == 1 then
    claimed = end_claim(named, 1)
  end
  if claimed == 0 then
    claimed = end_claim(client, wanted)
  end
  if claimed > 0 and claimed < wanted then
    free = redis.call('incrby', semaphore, claimed)
    claimed, enough = 0, free >= wanted
  end
  -- The release of a plain semaphore of this name leaves the permits free.
  local ended = queued and redis.pcall('zrem', queue, '+' .. client, '+' .. named)
  woken = type(ended) == 'number' and ended > 0
end
if not held and claimed == 0 and not woken and queued and free > 0 then
  stands = client and join(me)
  if stands or not client then
    local all, unused, _
    mine, all, _, unused = grant(free, me, give, take_back)
    -- Who has no place asks as if it stood at the end.
    mine = mine or not client and unused >= wanted
    free = tonumber(redis.call('get', semaphore))
    enough = mine or (all and free >= wanted)
    if wanted == 1 and redis.call('zscore', leases, members[1]) then
      -- It also stands in the queue in the name of its permit, and was given this. So another
      -- one that it might take is left for others.
      claimed, mine = 1, false
    end
  end
end
if claimed > 0 or (enough and not held) then
  take(claimed)
  free = free - wanted + claimed
  if client then
    leave(named)
  end
elseif client and not held and not stands then
  join(me)
end
-- `grant` has shared with the queue, but the client stands at its end again only now. Nor has it
-- told others that permits have expired.
local again = not mine or others_wait == '1' or not client and expired > 0
if free > 0 and again and (expired > 0 or claimed > 0 or woken or enough) then
  share(free, give, take_back)
end
if claimed > 0 or enough or held then
  return nil
end
local left = next_end()
return starts and {left, time[1] .. string.sub('00000' .. time[2], -6)} or left
