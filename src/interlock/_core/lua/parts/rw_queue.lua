-- rw_queue (part): who of readers and writers is next.
--
-- A member is as in queue, and a writer's id ends with ":write". Who was let in keeps its place, with
-- a minus: a writer until it releases, a reader until its first command. Until then a reader's entry
-- proves nothing, since it was written when the reader joined. The key *coming* tells whether those
-- readers may still come; it is no time in a score, because a slot may move to another clock.
-- include: front, missed

local PAGE = 500 -- members that are read at a time

local function writes(member)
  return string.find(member, ':write', 1, true)
end

-- Return whether nobody is in; the hash may still have a mode.
local function free()
  return redis.call('hlen', lock) == redis.call('hexists', lock, 'mode')
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
  marks = redis.call('zcount', queue, '-inf', '(0')
end

-- include: let_in

-- Let in from the front while it fits: one writer, or all readers up to the next writer; *me* needs
-- no mark. *open* is 1 if a release lets them in, 0 if a look does. Return what tell_all does; the
-- side of who came in, or nil; and whether *me* did.
local function advance(caller, open, me)
  local empty = free()
  local side = not empty and redis.call('hget', lock, 'mode')
  local full, size, before, longest = side == 'write', 8, marks, 0
  local came, mine = nil, false
  while not full do
    local page = redis.call('zrange', queue, marks, marks + size - 1)
    full, size = #page < size, PAGE
    for _, one in ipairs(page) do
      local client, number = string.match(one, '^([^:]*):([^?]*)')
      local reached = one == me or reachable(one, client)
      if reached == nil or reached and side and (side == 'write' or writes(one)) then
        full = true
        break
      end
      if one == me or not reached then
        redis.call('zrem', queue, one)
        mine = mine or one == me
      else
        redis.call('zadd', queue, 'xx', '-' .. now, one)
        marks = marks + 1
        let_in(one, client, number)
      end
      if reached then
        side = writes(one) and 'write' or 'read'
        came = side
        redis.call('hset', lock, 'mode', side, client .. ':' .. number, '1')
        longest = math.max(longest, tonumber(string.match(number, '/(%d+)') or GRANT))
      end
    end
  end
  if came and (empty or redis.call('pttl', lock) < longest) then
    redis.call('pexpire', lock, longest)
  end
  if came == 'read' and marks > before then
    redis.call('set', coming, '1', 'px', GRANT)
  end
  local ours, told = tell_all(caller, open)
  return ours, told, came, mine
end
