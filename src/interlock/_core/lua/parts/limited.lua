-- limited (part): the permits of a limit that each waiter brings along; it needs front.
--
-- A member is "<client>:<number>", "/<ms>" if its lease is below 3 s, "*<n>" for n permits above 1,
-- "%<limit>", and "?" if its client cannot listen. Its permits are "<client>:<number>.<i>", from 0.

-- Return the ids of its permits, for how long they are granted, and the limit.
local function read(one)
  local id, wish = string.match(one, '^([^:]*:%d+)(.*)$')
  local ids = {}
  for i = 0, tonumber(string.match(wish, '%*(%d+)') or 1) - 1 do
    ids[i + 1] = id .. '.' .. i
  end
  return ids, tonumber(string.match(wish, '/(%d+)') or GRANT), tonumber(string.match(wish, '%%(%d+)'))
end

local function fits(one)
  local ids, _, limit = read(one)
  return redis.call('zcard', permits) + #ids <= limit
end

-- Java does not know them, and nothing else counts them.
local function count() end
local function announce() end

-- The zset outlasts them, so that whoever looks finds who did not give them back in time.
local function outlast(lease)
  -- include: extend(permits, lease + KEEP)
end

-- Return the client of the permit *id*, and how a client is called there. Of a permit with a lease of
-- its own nobody is: its number begins with 2.
local function whose(id)
  local client, number = string.match(id, '^([^:]*):(.)')
  return number ~= '2' and client
end
local function called(client)
  return client
end
