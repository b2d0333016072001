-- leased (part): who has permits of Redisson's leased semaphore; it needs front.
--
-- A member is "<client>:<number>", "/<ms>" if its lease is below 3 s, "*<n>" for n permits above 1,
-- and "?" if its client cannot listen. The id of its permit i, from 0, is 16 bytes, in hex: the first
-- 16 digits of the client's id, the number in 12 decimal digits, i in 4. So one sees whose it was. Of
-- a permit of Java's a member is the id, in hex.
local ms, PERMANENT = math.floor(now / 1000), 922337203685477

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

local function holds(one)
  return redis.call('zscore', permits, read(one)[1])
end

local function fits(one)
  local free = redis.call('get', semaphore)
  if named and not free then
    free = redis.call('incrby', semaphore, named - redis.call('zcard', permits))
  end
  if idle and idle > 0 then -- a release knows of none
    redis.call('pexpire', semaphore, idle)
    redis.call('pexpire', permits, idle)
  end
  free = tonumber(free or 0) or redis.call('zcard', semaphore) -- which raises: it is no number
  return free >= #read(one)
end

-- Give *one* its permits, for *lease* milliseconds, or as long as a grant lasts. With each that is
-- new to the zset goes one of the number, so that their sum stays.
local function take(one, lease)
  local ids, granted = read(one)
  lease = lease or granted
  for _, id in ipairs(ids) do
    local ends = redis.call('zscore', permits, id)
    if not ends or tonumber(ends) < ms + lease then -- a late copy makes none shorter
      if redis.call('zadd', permits, ms + lease, id) == 1 then
        redis.call('decr', semaphore)
      end
    end
  end
  local ttl = redis.call('pttl', semaphore)
  if ttl > 0 then -- it does not end before the lease
    redis.call('pexpire', semaphore, math.max(ttl, lease))
    redis.call('pexpire', permits, math.max(ttl, lease))
  end
end

-- Return how many were held, or nil.
local function give_back(one)
  local held = 0
  for _, id in ipairs((read(one))) do
    if redis.call('zrem', permits, id) == 1 then
      held = held + 1
      redis.call('incr', semaphore)
    end
  end
  return held > 0 and held or nil
end

-- Tell Java that *back* permits came back and are free: of one, how many are free now.
local function announce(back)
  local free = tonumber(redis.call('get', semaphore))
  if free > 0 then
    redis.call(PUBLISH, channel, back == 1 and free or math.min(back, free))
  end
end

-- Give back permits whose leases have ended. Clients lose their places by that, unless the permits had
-- leases of their own: then the number begins with 2, and so the ninth byte of the id.
local function expire()
  local late = {}
  for _, id in ipairs(redis.call('zrangebyscore', permits, '0', ms)) do
    redis.call('zrem', permits, id)
    redis.call('incr', semaphore)
    late[string.sub(id, 1, 8)] = late[string.sub(id, 1, 8)] or (string.byte(id, 9) or 0) < 32 or nil
  end
  for _, one in ipairs(queue and next(late) and redis.call('zrange', queue, '0', '-1') or {}) do
    local client = string.match(one, '^[^:]*')
    local whose = raw(head(client))
    if late[whose] then
      late[whose] = nil
      forget(client)
    end
  end
end
