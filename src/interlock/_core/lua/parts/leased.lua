-- leased (part): the permits of Redisson's leased semaphore; it needs front.
--
-- A member is "<client>:<number>", "/<ms>" if its lease is below 3 s, "*<n>" for n permits above 1,
-- and "?" if its client cannot listen. The id of its permit i, from 0, is 16 bytes, in hex: the first
-- 16 digits of the client's id, the number in 12 decimal digits, i in 4. So one sees whose it was. Of
-- a permit of Java's a member is the id, in hex.

local function raw(hex)
  return (string.gsub(hex, '%x%x', function(pair) return string.char(tonumber(pair, 16)) end))
end

local function head(client)
  return string.sub(string.gsub(client, '-', '') .. '0000000000000000', 1, 16)
end

-- Return the ids of its permits, and for how long they are granted.
local function read(one)
  local client, number, wish = string.match(one, '^([^:]*):(%d+)(.*)$')
  if not client then
    return {raw(one)}, GRANT
  end
  local ids = {}
  for i = 0, tonumber(string.match(wish, '%*(%d+)') or 1) - 1 do
    ids[i + 1] = raw(head(client) .. number .. string.format('%04d', i))
  end
  return ids, tonumber(string.match(wish, '/(%d+)') or GRANT)
end

local function fits(one)
  local free = redis.call('get', semaphore)
  if named and not free then
    free = redis.call('incrby', semaphore, named - redis.call('zcard', permits))
  end
  -- include: idle(semaphore, permits)
  free = tonumber(free or 0) or redis.call('zcard', semaphore) -- which raises: it is no number
  return free >= #read(one)
end

-- With each permit that is new to the zset goes one of the number, so that their sum stays.
local function count(freed)
  redis.call('incrby', semaphore, freed)
end

-- Tell Java that *back* permits came back and are free: of one, how many are free now.
local function announce(back)
  local free = tonumber(redis.call('get', semaphore))
  if free > 0 then
    redis.pcall(PUBLISH, channel, back == 1 and free or math.min(back, free))
  end
end

-- Neither key ends before the lease.
local function outlast(lease)
  local ttl = redis.call('pttl', semaphore)
  if ttl > 0 then
    redis.call('pexpire', semaphore, math.max(ttl, lease))
    redis.call('pexpire', permits, math.max(ttl, lease))
  end
end

-- Return what tells the owner of the permit *id*, and how a client is called there. Of a permit with a
-- lease of its own nobody is: its number begins with 2, and so the ninth byte of the id.
local function whose(id)
  return (string.byte(id, 9) or 0) < 32 and string.sub(id, 1, 8)
end
local function called(client)
  return raw(head(client))
end
