-- members: what the members of *queue* say, which of them listen, and how they are told.
--
-- A member is "<client id>", or "<client id>:<name><wish>". The name is the number of the holder,
-- or the id of the permit, in whose name the client waits; it may be empty. The wish is ":token"
-- for a fenced lock, ":write" for a writer, ":<n>" for n permits, and ":leased:<n>" for n leased
-- ones. A "+" before all that makes a claim of it.
local ours = string.find(channel, '^redisson_sc:') and 'interlock_semaphore_' or 'interlock_'
local name = string.match(channel, ':.*')
local wake, waiting = ours .. 'wake' .. name .. ':', ours .. 'waiting' .. name

-- Return the client, the name and the wish. The client is '' if the member is none.
local function read_member(member)
  return string.match(member, '^%+?([^:]*):?(%x*)(.*)$')
end

-- Return the member whose claim *member* is; nil if it is none.
local function claimed_by(member)
  return string.match(member, '^%+(.*)$')
end

-- Return for each of *members* whether its client listens. Without the right to ask, each one does.
local function listening(members)
  local wakes, heard = {}, {}
  for i, member in ipairs(members) do
    wakes[i] = wake .. read_member(member)
  end
  local found = redis.pcall('pubsub', NUMSUB, unpack(wakes))
  for i, member in ipairs(members) do
    heard[member] = found.err ~= nil or found[2 * i] > 0
  end
  return heard
end

-- Send *message* to the client of *member*, then what it waits for, and *news*. Return whether the
-- server has sent it.
local function send(member, message, news)
  local client, _, wish = read_member(member)
  local told = message .. wish .. (news or '')
  return type(redis.pcall(PUBLISH, wake .. client, told)) == 'number'
end
