-- serve: wake the first clients in *queue*, as long as permits are free for them.
--
-- Each gets a claim to its permits for 250 ms. If *give* is there, it may take the permits for the
-- client. Then it returns the message for the client; *take_back* undoes it. Else the claim is a
-- member of the queue: "+" and the client's own member. Its score is the time at which it ends,
-- with a minus, so claims come first. A client that does not listen, or did not take its permits in
-- time, loses its place.
--
-- A client that wants more permits than are free is passed over. But in the last 2 s of each 10 s
-- of the server's clock, permits are kept for one such client: nobody behind it is woken. It wants
-- several permits, and came before these 10 s. The next client behind it is told when to look
-- again. Several such clients take turns. All this follows from the clock and the places. A note of
-- whose turn it is would have to be mended each time such a client comes, leaves or dies. So this
-- queue has no notes: each member is a client or a claim. A queue that exists means that a client
-- waits.
--
-- The function tells whether *caller* may take its permits, and whether all clients must be told.
-- Then it tells whether some were told to take theirs, or when to look. If so, somebody must look
-- later: they may have died. Last comes the number of permits that nobody in the queue can use. All
-- must be told if a command was refused, or if none of the first 128 can be served. It needs
-- `members`.

-- Return how many permits *member* wants.
local function wanted_by(member)
  local _, _, wish = read_member(member)
  return tonumber(string.match(wish, '%d+$') or 1)
end

local function serve(free, caller, give, take_back)
  local time, claims, gone, woken, mine, refused = redis.pcall('time'), {}, {}, {}, false, false
  local whole, given = false, false
  if time.err then
    return false, true, false, 0
  end
  local now, at, later = time[1] * 1000 + math.floor(time[2] / 1000), 0, 0
  local heard, waits_long = {}, nil
  local function ask(members)
    for member, listens in pairs(listening(members)) do
      heard[member] = listens or member == caller
    end
  end
  local function listens(member)
    if heard[member] == nil then
      ask({member})
    end
    return heard[member]
  end
  -- Return for how many milliseconds permits are still kept for *member*; 0: they are not.
  local function kept_for(member)
    local left = KEEP_EVERY - now % KEEP_EVERY
    if left > KEEP_FOR then
      return 0
    end
    if not waits_long then
      local found, all = redis.pcall('zrange', queue, 0, LOOKS_AT - 1, 'withscores'), {}
      for i = 1, #found, 2 do
        local came = tonumber(found[i + 1])
        -- A place far in the future was taken before the clock was set back.
        local long = came < now - now % KEEP_EVERY or came > now + KEEP_EVERY
        if came > 0 and long and wanted_by(found[i]) > 1 then
          all[#all + 1] = found[i]
        end
      end
      ask(all)
      waits_long = {}
      for _, each in ipairs(all) do
        waits_long[#waits_long + 1] = heard[each] and each or nil
      end
    end
    local turn = math.floor(now / KEEP_EVERY) % math.max(#waits_long, 1) + 1
    return waits_long[turn] == member and left or 0
  end
  while free > 0 and at < LOOKS_AT and not whole do
    local part = redis.pcall('zrange', queue, at, at + 7, 'withscores')
    for i = 1, #part, 2 do
      local member, place = part[i], tonumber(part[i + 1])
      local claimed, wants = claimed_by(member), wanted_by(member)
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
        local kept = wants > free and later == 0 and kept_for(member) or 0
        local matters = wants <= free or kept > 0 or later > 0 or heard[member] == false
        if matters and not listens(member) then
          gone[#gone + 1] = member
        elseif later > 0 then
          woken[#woken + 1] = {member, later}
          free = 0
        elseif wants > free then
          later = kept
        else
          free = free - wants
          if member == caller then
            mine = true
          else
            woken[#woken + 1] = {member, 0}
          end
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
    -- A client may start with its message at once. So the message comes after what it tells.
    local member, wait = each[1], each[2]
    local told = wait == 0 and give and give(member)
    if not send(member, told or wait) then
      refused = true
      if told then
        take_back(member, told)
      end
    else
      given = true
      if wait == 0 and not told then
        redis.pcall('zadd', queue, -(now + CLAIM), '+' .. member)
      end
    end
  end
  return mine, refused or all, given, unused
end
