-- permits (part): let in from the front of the queue while it fits; it needs front, and leased or
-- limited. A member that is let in loses its place, and its client looks for whoever was missed.

-- include: let_in

local ms = math.floor(now / 1000)
local nobody = true -- whether nobody waits, or nobody can be told

-- Give *one* its permits, for *lease* milliseconds, or as long as a grant lasts.
local function take(one, lease)
  local ids, granted = read(one)
  lease = lease or granted
  for _, id in ipairs(ids) do
    if redis.call('zadd', permits, 'gt', ms + lease, id) == 1 then -- a late copy makes none shorter
      count(-1)
    end
  end
  outlast(lease)
end

-- Return how many were held, or nil.
local function give_back(one)
  local held = 0
  for _, id in ipairs((read(one))) do
    if redis.call('zrem', permits, id) == 1 then
      held = held + 1
      count(1)
    end
  end
  return held > 0 and held or nil
end

-- Give back permits whose leases have ended; their clients lose their places by that.
local function expire()
  local late = {}
  for _, id in ipairs(redis.call('zrangebyscore', permits, '0', ms)) do
    redis.call('zrem', permits, id)
    count(1)
    local client = whose(id)
    if client then
      late[client] = true
    end
  end
  for _, one in ipairs(queue and next(late) and redis.call('zrange', queue, '0', '-1') or {}) do
    local client = string.match(one, '^[^:]*')
    if late[called(client)] then
      late[called(client)] = nil
      forget(client)
    end
  end
end

-- Let in while it fits; *open* is as in queue. Return what tell_all does; whether *me* was let in;
-- and the first one for whom there are too few.
local function advance(caller, open, me)
  local mine, one = false, nil
  while true do
    local client, number
    one, client, number = first()
    nobody = not one
    if nobody or not fits(one) then
      break
    end
    redis.call('zrem', queue, one)
    take(one)
    if one == me then
      mine = true
    else
      let_in(one, client, number)
    end
  end
  local ours, told = tell_all(caller, open)
  return ours, told, mine, one
end
