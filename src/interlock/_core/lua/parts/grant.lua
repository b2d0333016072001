-- grant: give *free* turns to the first clients in *queue*: the one of a lock, or permits.
--
-- *give* gives a client its turn for 250 ms. It returns the message, and what comes last in it;
-- then the client leaves the queue. If the server refuses the message, *take_back* undoes the gift.
-- If *give* is missing or returns nil, the permits stay free, and the turn is a claim: "+" and the
-- client's own member of the queue. Its score is the time at which it ends, with a minus, so claims
-- come first. A client that does not listen, or did not take its permits in time, loses its place.
--
-- Others may listen, who stand in no queue. *pause* gets the time at which a client came. It
-- returns for how many milliseconds the client leaves its turn to others; 0 if it does not. Without
-- *pause* all must be told if others listen. Only a lock can do without the time.
--
-- A client that wants more permits than are free is passed over. But in the last 2 s of each 10 s
-- of the server's clock, permits are kept for one such client: nobody behind it is woken. It wants
-- several permits, and came before these 10 s. The next client behind it is told when to look
-- again. Several such clients take turns. All this follows from the clock and the places. A note of
-- whose turn it is would have to be mended each time such a client comes, leaves or dies.
--
-- A member that begins with a colon is a note. Scripts ask only whether there is a queue. So it is
-- removed if only notes are left. The queue of permits has none.
--
-- The function tells whether *caller* may take its permits, and whether all clients must be told.
-- Then it tells whether some were told to take theirs, or when to look. If so, somebody must look
-- later: they may have died. Last comes the number of permits that nobody in the queue can use. All
-- must be told if a command was refused, or if none of the first 128 can have a turn. It needs
-- `members` and `microseconds`.

-- Return how many permits a client with this *wish* wants.
local function wanted_by(wish)
  return wish == '' and 1 or tonumber(string.match(wish, '%d+$') or 1)
end

local function grant(free, caller, give, take_back, pause)
  local now = tonumber(string.sub(microseconds() or '', 1, -4))
  if not (now or pause) then
    return false, true, false, 0
  end
  local claims, gone, woken, stay, mine, refused = {}, {}, {}, 0, false, false
  local whole, given, later = false, false, 0
  -- The first slice has room for two notes. It is a string: the server takes long to turn a number
  -- into one.
  local from, to = '0', '2'
  local heard, waits_long = {}, nil
  local function listens(member)
    if heard[member] == nil then
      refused = refused or not listening({member}, heard)
    end
    return heard[member] or member == caller
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
        local _, _, wish = read_member(found[i])
        if came > 0 and long and wanted_by(wish) > 1 then
          all[#all + 1] = found[i]
        end
      end
      listening(all, heard)
      waits_long = {}
      for _, each in ipairs(all) do
        waits_long[#waits_long + 1] = listens(each) and each or nil
      end
    end
    local turn = math.floor(now / KEEP_EVERY) % math.max(#waits_long, 1) + 1
    return waits_long[turn] == member and left or 0
  end
  while free > 0 and from - LOOKS_AT < 0 and not (whole or refused) do
    local part = redis.pcall('zrange', queue, from, to, 'withscores')
    for i = 1, #part, 2 do
      local member, place = part[i], tonumber(part[i + 1])
      local client, named, wish = read_member(member)
      local wants = wanted_by(wish)
      local claimed = place < 0 and claimed_by(member)
      if claimed then
        local ends = -place
        claims[claimed] = true
        -- A claim that ends much later was made before the clock was set back.
        if ends > now and ends < now + 60000 then
          free, stay = free - wants, stay + 1
        else
          gone[#gone + 1], gone[#gone + 2] = member, claimed
        end
      elseif client ~= '' and not claims[member] and free > 0 then
        local kept = wants > free and later == 0 and kept_for(member) or 0
        local matters = wants <= free or kept > 0 or later > 0 or heard[member] == false
        if matters and not listens(member) then
          gone[#gone + 1] = member
        elseif matters and others_listen and not pause then
          free, refused = 0, true
        else
          stay = stay + 1
          if later > 0 then
            woken[#woken + 1] = {member, later, client, named, wish}
            free = 0
          elseif wants > free then
            later = kept
          else
            free = free - wants
            if member == caller then
              mine = true
            else
              woken[#woken + 1] = {member, pause and pause(place) or 0, client, named, wish}
            end
          end
        end
      end
    end
    whole, refused = #part < 2 * (to - from + 1), refused or part.err ~= nil
    from, to = to + 1, to + 25
  end
  local all = free > 0 and not whole and #woken == 0 and later == 0 and not mine
  local unused = whole and later == 0 and free or 0
  for _, member in ipairs(refused and {} or gone) do
    redis.pcall('zrem', queue, member)
  end
  if whole and stay == 0 and not refused then
    redis.pcall('del', queue)
  end
  for _, each in ipairs(woken) do
    -- A client may start with its message at once. So the message comes after what it tells.
    local member, wait, client, named, wish = unpack(each)
    local told, news
    if wait == 0 and give then
      told, news = give(member, client, named, wish)
    end
    if not send(client, (told or wait) .. wish .. (news or '')) then
      refused = true
      if told and take_back then
        take_back(member, told)
      end
    else
      given = true
      if told then
        redis.pcall('zrem', queue, member)
      elseif wait == 0 then
        redis.pcall('zadd', queue, -(now + CLAIM), '+' .. member)
      end
    end
  end
  return mine, refused or all, given, unused
end
