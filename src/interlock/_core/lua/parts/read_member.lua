-- read_member: tell what a member of the queue for permits says.
--
-- A client waits as "<client id>" for one permit, and as "<client id>:<n>" for several. For leased
-- permits it waits as "<client id>:leased:<n>", or as "<client id>:<id>:leased:1" in the name of a
-- permit. A "+" before that makes a claim of it. The names of all channels end in *name*.

-- Return the client, the number of permits that it wants, what its messages end with, and an id.
--
-- That is the permit in whose name it waits. It is '' if there is none, nil for plain permits.
local function read_member(member)
  local client, id, wish = string.match(member, '^%+?([^:]*):?(%x*)(:leased:%d+)$')
  if not client then
    client, wish = string.match(member, '^%+?([^:]*)(.*)$')
  end
  return client, tonumber(string.match(wish, ':(%d+)$') or 1), wish, id
end

-- Return the member whose claim *member* is; nil if it is none.
local function claimed_by(member)
  return string.match(member, '^%+(.*)$')
end

-- Return the channel on which the client of *member* is told that it is next.
local function wake_of(member)
  return 'interlock_semaphore_wake' .. name .. ':' .. read_member(member)
end
