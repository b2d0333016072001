-- limited (part): who has permits of a limit that each waiter brings along; it needs front.
--
-- A member is "<client>:<number>", "/<ms>" if its lease is below 3 s, "*<n>" for n permits above 1,
-- "%<limit>", and "?" if its client cannot listen. Its permits are "<client>:<number>.<i>", from 0.
local ms, PERMANENT = math.floor(now / 1000), 922337203685477

local function read(one)
  local id, wish = string.match(one, '^([^:]*:%d+)(.*)$')
  return id, tonumber(string.match(wish, '%*(%d+)') or 1), tonumber(string.match(wish, '%%(%d+)')),
    tonumber(string.match(wish, '/(%d+)') or GRANT)
end

local function holds(one)
  return redis.call('zscore', permits, read(one) .. '.0')
end

local function fits(one)
  local _, n, limit = read(one)
  return redis.call('zcard', permits) + n <= limit
end

-- Give *one* its permits, for *lease* milliseconds, or as long as a grant lasts.
local function take(one, lease)
  local id, n, _, granted = read(one)
  lease = lease or granted
  for i = 0, n - 1 do
    local ends = redis.call('zscore', permits, id .. '.' .. i)
    if not ends or tonumber(ends) < ms + lease then -- a late copy makes none shorter
      redis.call('zadd', permits, ms + lease, id .. '.' .. i)
    end
  end
  -- It outlasts them, so that whoever looks finds who did not give them back in time.
  if redis.call('pttl', permits) < lease + KEEP then
    redis.call('pexpire', permits, lease + KEEP)
  end
end

-- Return how many were held, or nil.
local function give_back(one)
  local id, n = read(one)
  local held = 0
  for i = 0, n - 1 do
    held = held + redis.call('zrem', permits, id .. '.' .. i)
  end
  return held > 0 and held or nil
end

-- Java does not know it.
local function announce() end

-- Remove permits whose leases have ended; their clients lose their places.
local function expire()
  local forgotten = {}
  for _, id in ipairs(redis.call('zrangebyscore', permits, '-inf', ms)) do
    local client = string.match(id, '^[^:]*')
    redis.call('zrem', permits, id)
    if queue and not forgotten[client] then
      forgotten[client] = true
      forget(client)
    end
  end
end
