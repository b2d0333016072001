-- read_write_lock_query: tell who reads or writes, how deep, and for how long.
--
-- A reader whose entries have all ended has died, and does not count.
--
-- KEYS[1]     lock   hash {mode: read or write, reader: depth, writer: depth}; its TTL is the
--                    writer's lease
-- KEYS[2..n]  entry  string "1", entries of readers; may be left out
-- ARGV[1]     side   0: who reads; 1: who writes; 2: both
-- ARGV[2]     told   string, the readers whose entries are given; see readers
--
-- Returns  {what is left of the longest lease in milliseconds (-1: never ends, -2: not locked),
--          holder, depth, holder, depth, ...}
-- Source   RedissonReadLock and RedissonWriteLock, isLocked and getHoldCount, Redisson 4.7.0
-- Wire     nothing is written; this code is our own
local lock, entry, keys, side, told = KEYS[1], KEYS[2], KEYS, ARGV[1], ARGV[2]

-- include: readers

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
