-- permits (part): let in from the front of the queue while it fits; it needs front, and leased or
-- limited. A member that is let in loses its place, and its client looks for whoever was missed.

-- include: let_in

local nobody = true -- whether nobody waits, or nobody can be told

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
    elseif string.sub(one, -1) ~= '?' then
      let_in(client, number)
    end
  end
  local ours, told = tell_all(caller, open)
  return ours, told, mine, one
end

-- Return the milliseconds until somebody may be let in: -2 if *one* can be now; -1 if no lease ends.
local function left_for(one)
  if one and fits(one) then
    return -2
  end
  local ends = tonumber(redis.call('zrange', permits, '0', '0', 'withscores')[2] or PERMANENT)
  return ends < PERMANENT and ends - ms or -1
end
