-- readers: tell how long the readers of *lock* keep it.
--
-- Only the server knows the readers, and a script may touch only keys that it was given. So a call
-- that must look at entries of others is refused at first, before it changes anything. The error
-- ENTRIES names the readers and their depths. The client sends the call again. Then the entries are
-- the last keys, and *told* is "-<number of the other keys>;<reader> <depth>;<reader> <depth>...".
-- After the "-", a reader that was not told counts as alive until the lock ends. Without it, these
-- are readers that the client knew by itself.
local own, entries_of, unknown = #keys, {}, {}
if told ~= '' then
  own = tonumber(string.match(told, '%d+')) or own
  local at = own
  for reader, depth in string.gmatch(told, ';(%S+) (%d+)') do
    entries_of[reader] = {}
    for n = 1, tonumber(depth) do
      entries_of[reader][n] = keys[at + n]
    end
    at = at + tonumber(depth)
  end
end

-- Return how long *reader* keeps the lock, in milliseconds; -2 if it has died.
local function lease_of(reader, depth)
  local theirs, left, before = entries_of[reader], -2, entry
  if not theirs or #theirs < depth then
    unknown[#unknown + 1] = {reader, depth}
    return redis.call('pttl', lock)
  end
  for n = 1, depth do
    entry = theirs[n]
    left = math.max(left, redis.call('pttl', entry))
  end
  entry = before
  return left
end

-- Return the error that asks for the entries of the unknown readers; nil if there are none.
local function asks()
  if #unknown == 0 or string.sub(told, 1, 1) == '-' then
    return nil
  end
  local names, sum = {'ENTRIES'}, 0
  for reader, theirs in pairs(entries_of) do
    unknown[#unknown + 1] = {reader, #theirs}
  end
  for _, each in ipairs(unknown) do
    -- Bounded: a huge depth, written by another program, must not stall the server.
    if sum + each[2] <= 1000 and string.find(each[1], '^[%w:.-]+$') then
      names[#names + 1] = string.format('%s %d', each[1], each[2])
      sum = sum + each[2]
    end
  end
  return {err = table.concat(names, ' ')}
end
