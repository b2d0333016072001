-- claim_permits: take leased permits for a client in the queue, which has 250 ms to confirm them.
--
-- A claim is a lease like any other. So nobody can overtake it, and if the client does not come, it
-- ends like the lease of a dead holder. Its ids are four zero bytes, eight bytes that stand for the
-- client's *member* of the queue, and a number in four bytes.
local function claim_of(member, number)
  local bytes = string.gsub(string.sub(redis.sha1hex(member), 1, 16), '%x%x', function(byte)
    return string.char(tonumber(byte, 16))
  end)
  return '\0\0\0\0' .. bytes .. '\0\0' .. string.char(math.floor(number / 256), number % 256)
end

-- Give *member* its permits; it leaves the queue. Return false if it waits for plain permits.
local function give(member)
  local wanted = tonumber(string.match(member, ':leased:(%d+)$'))
  if not wanted then
    return false
  end
  redis.pcall('zrem', queue, member)
  redis.call('decrby', semaphore, wanted)
  for number = 1, wanted do
    redis.call('zadd', leases, now + CLAIM, claim_of(member, number))
  end
  -- Nobody may come for the claim. Then it must end with the number, or it would count later.
  local ttl = redis.call('pttl', semaphore)
  if ttl > 0 then
    redis.call('pexpire', leases, ttl)
  end
  return true
end

-- End the claim of *member* to *wanted* permits; return how many there were.
local function end_claim(member, wanted)
  local claimed = 0
  for number = 1, wanted do
    if redis.call('zrem', leases, claim_of(member, number)) == 0 then
      break
    end
    claimed = claimed + 1
  end
  return claimed
end

-- Give *free* permits to the first clients in the queue; return whether one was told that it is
-- next. If others listen, as Java does, or nobody can be served, all are told.
local function share(free)
  local heard = redis.pcall('pubsub', NUMSUB, channel, 'interlock_semaphore_waiting' .. name)
  if not heard.err and heard[2] <= heard[4] then
    local _, all, served = serve(free, nil, give)
    if not all and (served or redis.pcall('exists', queue) == 1) then
      return served
    end
  end
  redis.call(PUBLISH, channel, free)
  return false
end
