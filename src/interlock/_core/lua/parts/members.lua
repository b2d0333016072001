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

-- Note in *heard* for each of *members* whether its client listens, and in `others_listen` whether
-- others do, who stand in no queue. Return false without the right to ask. PUBSUB NUMSUB does not
-- count pattern subscribers. They do not compete.
local others_listen = false
local function listening(members, heard)
  local wakes = {}
  for i, member in ipairs(members) do
    wakes[i] = wake .. string.match(member, '^%+?([^:]*)')
  end
  local found = redis.pcall('pubsub', NUMSUB, channel, waiting, unpack(wakes))
  if found.err then
    return false
  end
  others_listen = found[2] > found[4]
  for i, member in ipairs(members) do
    heard[member] = found[2 * i + 4] > 0
  end
  return true
end

-- Send *message* to *client*; return whether the server has sent it.
local function send(client, message)
  return type(redis.pcall(PUBLISH, wake .. client, message)) == 'number'
end
