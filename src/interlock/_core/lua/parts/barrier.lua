-- barrier (part): how the parties of a barrier end, each once. It needs party, waiting, ended, keep and
-- wakes.
--
-- A party arrives under a number that is never used again. So nothing tells generations apart: what
-- has ended is noted, and each script reads that first.
-- include: now
local HOUR = 3600000 -- milliseconds that a broken barrier is remembered after its last use

-- Note that *party* passed with *index*, or did not pass.
local function note(party, index)
  redis.call('zadd', ended, (index and '' or '-') .. time[1] .. string.format('%06d', index or 0), party)
end

-- Forget those that ended long ago, and return *answer*.
local function noted(answer)
  local old = string.format('%.0f', time[1] * 1000000 - keep * 1000)
  redis.call('zremrangebyscore', ended, '-' .. old, old)
  redis.call('pexpire', ended, keep)
  return answer
end

-- All who wait pass, or learn that they do not.
local function finish(passed)
  local all = redis.call('zrange', waiting, '0', '-1')
  redis.call('del', waiting) -- a full server allows this as the first write, and then all others
  for i, party in ipairs(all) do
    if party ~= '' then
      note(party, passed and i - 1)
      local client, number = string.match(party, '^([^:]*):(.*)$')
      redis.pcall(PUBLISH, wakes .. client, number .. ':' .. (passed and i - 1 or -1))
    end
  end
end

local function breaks()
  finish(false)
  redis.call('zadd', waiting, '+inf', '')
  redis.call('pexpire', waiting, HOUR)
end

-- Return the index of a party that has passed, -1 if it did not pass; nil if it has not ended.
local function result(party)
  local score = redis.call('zscore', ended, party)
  return score and (tonumber(score) < 0 and -1 or tonumber(score) % 1000000) or nil
end

-- What has ended changes nothing any more.
local known = result(party)
if known then
  return known
end
