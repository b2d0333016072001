-- claim_permits: take leased permits for a client in the queue, which has 250 ms to confirm them.
--
-- A claim is a lease like any other. So nobody can overtake it, and if the client does not come, it
-- ends like the lease of a dead holder.
--
-- A client that waits in the name of its permit gets this very permit, and may start at once. All
-- other claims have ids of their own. Such an id begins with four zero bytes. Eight bytes follow
-- that stand for the client's *member* of the queue, and a number in four bytes. It needs `raw`,
-- `members` and `grant`.
local function claim_of(member, number)
  local bytes = raw(string.sub(redis.sha1hex(member), 1, 16))
  return '\0\0\0\0' .. bytes .. '\0\0' .. string.char(math.floor(number / 256), number % 256)
end

-- Give *member* its permits; return the message for its client, nil if it waits for plain permits.
local function give(member, _, id, wish)
  if not string.find(wish, '^:leased') then
    return nil
  end
  local ttl = redis.call('pttl', semaphore)
  if id ~= '' and redis.call('zscore', leases, raw(id)) then
    -- This member is left over: its client has got the permit without it.
    return '0'
  end
  -- A number that ends by itself must outlast the permit. So the client has to ask.
  if id ~= '' and ttl < 0 then
    redis.call('decrby', semaphore, 1)
    redis.call('zadd', leases, now + CLAIM, raw(id))
    local at = time[1] .. string.sub('00000' .. time[2], -6)
    return '=' .. id .. ':' .. at
  end
  -- The client may stand here again while it still has such a claim, which is not taken twice.
  local added = 0
  for number = 1, wanted_by(wish) do
    added = added + redis.call('zadd', leases, now + CLAIM, claim_of(member, number))
  end
  redis.call('decrby', semaphore, added)
  -- Nobody may come for the claim. Then it must end with the number, or it would count later.
  if ttl > 0 then
    redis.call('pexpire', leases, ttl)
  end
  return '0'
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

-- Undo `give`, because *told*, the message for *member*, was refused. A permit that its client has
-- got without this place stays.
local function take_back(member, told)
  local _, id, wish = read_member(member)
  local back = end_claim(member, wanted_by(wish))
  if string.sub(told, 1, 1) == '=' then
    back = back + redis.call('zrem', leases, raw(id))
  end
  redis.call('incrby', semaphore, back)
end
