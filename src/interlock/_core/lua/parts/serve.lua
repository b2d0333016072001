-- serve: wake the first clients in *queue*, as long as permits are free for them.
--
-- Each gets a claim to its permits for 250 ms. If *give* is there, it may take the permits for the
-- client. Then it returns the message for the client; *take_back* undoes it. Else the claim is a
-- member of the queue: "+" and the client's own member. Its score is the time at which it ends,
-- with a minus, so claims come first. A client that does not listen, or did not take its permits in
-- time, loses its place.
--
-- A client that wants more permits than are free is passed over for 8 s. For the next 2 s permits
-- are kept for it: nobody behind it is woken. Then it is passed over again, and so on. If several
-- clients want too many, they take turns of 10 s. In the last 2 s of a turn, permits are kept for
-- the client whose turn it is. The next client behind it is told when to look again. All this
-- follows from the clock and the places. A note of whose turn it is would have to be mended each
-- time such a client comes, leaves or dies.
--
-- The function tells whether *caller* may take its permits, whether all clients must be told, and
-- whether some were woken to take theirs. Last comes the number of permits that nobody in the queue
-- can use. All must be told if a command was refused, or if none of the first 128 can be served. It
-- needs `read_member`.
local function serve(free, caller, give, take_back)
  local time, claims, gone, woken, mine, refused = redis.pcall('time'), {}, {}, {}, false, false
  local whole, given = false, false
  if time.err then
    return false, true, false, 0
  end
  local now, at, later = time[1] * 1000 + math.floor(time[2] / 1000), 0, 0
  local heard, too_many = {}, nil
  local function ask(members)
    local wakes = {}
    for i, member in ipairs(members) do
      wakes[i] = wake_of(member)
    end
    local found = redis.pcall('pubsub', NUMSUB, unpack(wakes))
    for i, member in ipairs(members) do
      heard[member] = member == caller or found.err ~= nil or found[2 * i] > 0
    end
  end
  local function listens(member)
    if heard[member] == nil then
      ask({member})
    end
    return heard[member]
  end
  -- Return for how many milliseconds permits have been kept for *member*; below 0: they are not.
  local function kept_for(member, place)
    local passed = KEEP_EVERY - KEEP_FOR
    local turn, alone = now % KEEP_EVERY - passed, (now - place) % KEEP_EVERY - passed
    if turn < 0 and alone < 0 then
      return -1
    end
    if not too_many then
      local all = {}
      for _, each in ipairs(redis.pcall('zrange', queue, 0, LOOKS_AT - 1)) do
        local _, wants = read_member(each)
        all[#all + 1] = wants > free and not claimed_by(each) and each or nil
      end
      ask(all)
      too_many = {}
      for _, each in ipairs(all) do
        too_many[#too_many + 1] = heard[each] and each or nil
      end
    end
    if #too_many < 2 then
      return alone
    end
    return too_many[math.floor(now / KEEP_EVERY) % #too_many + 1] == member and turn or -1
  end
  while free > 0 and at < LOOKS_AT and not whole do
    local part = redis.pcall('zrange', queue, at, at + 7, 'withscores')
    for i = 1, #part, 2 do
      local member, place = part[i], tonumber(part[i + 1])
      local claimed, _, wants = claimed_by(member), read_member(member)
      if claimed then
        claims[claimed] = true
        local ends = -place
        -- A claim that ends much later was made before the clock was set back.
        if ends > now and ends < now + 60000 then
          free = free - wants
        else
          gone[#gone + 1], gone[#gone + 2] = member, claimed
        end
      elseif not claims[member] and free > 0 then
        local kept = wants > free and later == 0 and kept_for(member, place) or -1
        local matters = wants <= free or kept >= 0 or later > 0 or heard[member] == false
        if matters and not listens(member) then
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
          later = KEEP_FOR - kept
        end
      end
    end
    whole, at, refused = #part < 16, at + 8, refused or part.err ~= nil
  end
  local all = free > 0 and not whole and #woken == 0 and later == 0 and not mine
  local unused = whole and later == 0 and free or 0
  for _, member in ipairs(gone) do
    redis.pcall('zrem', queue, member)
  end
  for _, each in ipairs(woken) do
    local wake, _, _, wish = wake_of(each[1]), read_member(each[1])
    -- A client may start with its message at once. So the message comes after what it tells.
    local told = each[2] == 0 and give and give(each[1])
    local message = told or each[2] .. wish
    if type(redis.pcall(PUBLISH, wake, message)) ~= 'number' then
      refused = true
      if told then
        take_back(each[1], told)
      end
    elseif each[2] == 0 then
      given = true
      if not told then
        redis.pcall('zadd', queue, -(now + CLAIM), '+' .. each[1])
      end
    end
  end
  return mine, refused or all, given, unused
end
