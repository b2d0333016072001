-- rw_queue (part): who of readers and writers is next.
--
-- A member is as in queue, and a writer's id ends with ":write". Who was let in keeps its place, with
-- a minus: a writer until it releases, a reader until its first command. Until then a reader's entry
-- proves nothing, since it was written when the reader joined. The key *coming* tells whether those
-- readers may still come; it is no time in a score, because a slot may move to another clock.
-- include: front, missed

local PAGE = 500 -- members that one call names, at most

local function writes(member)
  return string.find(member, ':write', 1, true)
end

-- Return whether nobody is in; the hash may still have the *mode* that it had.
local function free()
  return redis.call('hlen', lock) <= (mode and 1 or 0)
end

-- Remove who was let in and did not come in time, and the places of its client.
local marks = 0 -- how many stand in front who were let in
local may_come = {} -- who of them did not fail
local function sweep()
  local all = redis.call('zrangebyscore', queue, '-inf', '(0')
  local in_time, failed = all[1] and redis.call('exists', coming) == 1, {}
  for _, mark in ipairs(all) do
    local client, field = string.match(mark, '^[^:]*'), string.match(mark, '^[^?]*')
    if redis.call('hexists', lock, field) == 1 and (in_time or writes(field)) then
      may_come[field] = true
    else
      redis.call('hdel', lock, field)
      if not failed[client] then
        failed[client] = true
        forget(client)
      end
    end
  end
  marks = next(failed) and redis.call('zcount', queue, '-inf', '(0') or #all
end

-- include: let_in

-- Let in from the front while it fits: one writer, or all readers up to the next writer; *me* needs
-- no mark. *open* is 1 if a release lets them in, 0 if a look does. Return what tell_all does; the
-- side of who came in, or nil; and whether *me* did.
local function advance(caller, open, me)
  local empty = free()
  local side = not empty and (mode or 'write') -- or another kind of lock
  local full, size, came, mine = side == 'write', 8, nil, false
  while not full do
    local page = redis.call('zrange', queue, marks, marks + size - 1)
    full, size = #page < size, PAGE
    local fields, marked, gone, longest = {}, {}, {}, 0
    for _, one in ipairs(page) do
      if side == 'write' then -- before anybody is asked whether the next one listens
        full = true
        break
      end
      local client, number = string.match(one, '^([^:]*):([^?]*)')
      local reached = one == me or reachable(one, client)
      if reached == nil or reached and side and writes(one) then
        full = true
        break
      elseif not reached then
        gone[#gone + 1] = one
      else
        side = writes(one) and 'write' or 'read'
        came = side
        longest = math.max(longest, tonumber(string.match(number, '/(%d+)') or GRANT))
        fields[#fields + 1], fields[#fields + 2] = client .. ':' .. number, '1'
        if one == me then
          mine = true
          gone[#gone + 1] = one
        else
          marked[#marked + 1], marked[#marked + 2] = '-' .. now, one
          marks = marks + 1
          let_in(one, client, number)
        end
      end
    end
    if gone[1] then
      redis.call('zrem', queue, unpack(gone))
    end
    if fields[1] then
      redis.call('hset', lock, 'mode', side, unpack(fields))
      if empty or redis.call('pttl', lock) < longest then
        redis.call('pexpire', lock, longest)
      end
      empty = false
    end
    if marked[1] then
      if side == 'read' then
        redis.call('set', coming, '1', 'px', GRANT)
      end
      redis.call('zadd', queue, 'xx', unpack(marked))
    end
  end
  local ours, told = tell_all(caller, open)
  return ours, told, came, mine
end
