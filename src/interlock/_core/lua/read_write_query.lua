-- read_write_query: tell who reads or writes, how deep, and for how long.
--
-- A reader whose entries have all ended has died, and does not count.
--
-- Only the server knows the readers, and a script may touch only keys that it was given. So the call
-- is refused at first. The error ENTRIES names the readers and their depths. The client sends the
-- call again. Then their entries are the last keys. A reader that was not told then counts as alive
-- until the lock ends.
--
-- KEYS     lock, entry...
-- ARGV     side, told
--
-- Returns  {what is left of the longest lease in milliseconds (-1: never ends, -2: not locked),
--          holder, depth, holder, depth, ...}
-- Source   RedissonReadLock and RedissonWriteLock, isLocked and getHoldCount, Redisson 4.7.0

local entries_of, unknown = {}, {}
local at = tonumber(string.match(told, '%d+') or #KEYS)
for reader, depth in string.gmatch(told, ';(%S+) (%d+)') do
  entries_of[reader] = {}
  for n = 1, tonumber(depth) do
    entries_of[reader][n] = KEYS[at + n]
  end
  at = at + tonumber(depth)
end

-- Return how long *reader* keeps the lock, in milliseconds; -2 if it has died.
local function lease_of(reader, depth)
  local theirs, left = entries_of[reader], -2
  if not theirs or #theirs < depth then
    unknown[#unknown + 1] = {reader, depth}
    return redis.call('pttl', lock)
  end
  for n = 1, depth do
    entry = theirs[n]
    left = math.max(left, redis.call('pttl', entry))
  end
  return left
end

-- Return the error that asks for the entries of the unknown readers; nil if there are none.
local function asks()
  if #unknown == 0 or told ~= '' then
    return nil
  end
  local names, sum = {'ENTRIES'}, 0
  for _, each in ipairs(unknown) do
    -- Bounded: a huge depth, written by another program, must not stall the server.
    if sum + each[2] <= 1000 and string.find(each[1], '^[%w:.-]+$') then
      names[#names + 1] = string.format('%s %d', each[1], each[2])
      sum = sum + each[2]
    end
  end
  return {err = table.concat(names, ' ')}
end

local answer, fields = {-2}, redis.call('hgetall', lock)
for i = 1, #fields, 2 do
  local holder, depth, left = fields[i], fields[i + 1], -2
  local writes = holder:find(':write', 1, true)
  if side == '2' or side == (writes and '1' or '0') then
    if writes then
      left = redis.call('pttl', lock)
    elseif holder ~= 'mode' then
      left = lease_of(holder, tonumber(depth))
    end
    if left ~= -2 then
      answer[1] = math.max(answer[1], left)
      answer[#answer + 1] = holder
      answer[#answer + 1] = depth
    end
  end
end
return asks() or answer
