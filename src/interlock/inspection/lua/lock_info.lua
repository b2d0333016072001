-- lock_info: tell what kind of lock each key is, who holds it, and who stands in its queue.
--
-- It changes nothing. A key that is no lock costs a few short commands. The caller reads the
-- entries of readers, which only the server knows, by a second call. The lock's own key stands for
-- a key that the user may not read: it is of another type, and so counts as missing.
--
-- KEYS[1]     key     hash of a lock, zset of a leased semaphore, or string of a semaphore or latch
-- KEYS[2]     queue   the list of a fair lock
-- KEYS[3]     places  the zset with the deadlines of that list
-- KEYS[4]     token   the fencing token
-- KEYS[5]     free    the free permits of a leased semaphore
-- KEYS[6..n]  more    five for the next lock, and so on
-- ARGV[1]     limit   integer > 0, how many holders, and how many waiters, are returned at most
--
-- Returns  for each lock: nil if it is no lock; else {kind, milliseconds that are left, number of
--          holders, {holder, depth, milliseconds, ...}, {waiter, milliseconds, ...}, length of the
--          queue, token, free permits}; a reader has what is left of the lock
-- Source   none; the keys are those of Redisson 4.7.0
-- Wire     nothing is written
local key, queue, places, token, free = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local keys, limit = KEYS, tonumber(ARGV[1])
local EACH = 5
local HOLDER, LONGEST = '^[%x-]+:%d+$', 400

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function unless_refused(reply)
  return not (type(reply) == 'table' and reply.err) and reply
end

local function depth_of(text)
  return #text <= 10 and text:match('^%d+$') and tonumber(text)
end

local function read_write(fields, mode, count)
  local holders, left = {}, redis.call('pttl', key)
  for i = 1, #fields, 2 do
    local field, depth = fields[i], depth_of(fields[i + 1])
    local holder = field:gsub(':write$', '')
    if field ~= 'mode' then
      if not depth or not holder:match(HOLDER) then
        return nil
      end
      for _, part in ipairs({field, depth, left}) do
        holders[#holders + 1] = part
      end
    end
  end
  return {mode, left, count - 1, holders, {}, 0, false, false}
end

local function group(fields, count)
  local holders, left, depths = {}, redis.call('pttl', key), {}
  for i = 1, #fields, 2 do
    local holder = fields[i]:match('^[^:]+:([%x-]+:%d+):lock_count$')
    local depth = depth_of(fields[i + 1])
    if holder and depth then
      local ends = redis.call('hget', key, (fields[i]:gsub('lock_count$', 'expire_time')))
      ends = ends and tonumber(ends)
      if ends and ends > now and not depths[holder] then
        depths[holder] = depth
        for _, part in ipairs({holder, depth, ends - now}) do
          holders[#holders + 1] = part
        end
      end
    end
  end
  -- A holder of several values counts once. But if only a part of the hash was read, and shows
  -- several holders, each value counts as one.
  local told = #holders / 3
  if #fields == 2 * count or told == 1 then
    count = told
  else
    count = math.max(told, math.floor(count / 3))
  end
  return {'group', left, count, holders, {}, 0, false, false}
end

local function waiters_of(queue_length)
  local waiters = {}
  local found = queue_length > 0 and redis.pcall('lrange', queue, 0, limit - 1)
  for _, waiter in ipairs(found and unless_refused(found) or {}) do
    if #waiter <= LONGEST then
      local ends = unless_refused(redis.pcall('zscore', places, waiter))
      waiters[#waiters + 1] = waiter
      waiters[#waiters + 1] = ends and math.floor(tonumber(ends) - now) or -1
    end
  end
  return waiters
end

local function plain(fields, count)
  local holders, left = {}, redis.call('pttl', key)
  for i = 1, #fields, 2 do
    local depth = depth_of(fields[i + 1])
    if not depth or not fields[i]:match(HOLDER) then
      return nil
    end
    for _, part in ipairs({fields[i], depth, left}) do
      holders[#holders + 1] = part
    end
  end
  local length = unless_refused(redis.pcall('llen', queue)) or 0
  local drawn = unless_refused(redis.pcall('get', token))
  drawn = drawn and tonumber(drawn)
  return {'lock', left, count, holders, waiters_of(length), length, drawn, false}
end

local function mode_of(fields)
  for i = 1, #fields, 2 do
    if fields[i] == 'mode' then
      return fields[i + 1]
    end
  end
end

local function hash(count)
  local fields, mode = {}, nil
  if count <= limit then
    for _, name in ipairs(redis.call('hkeys', key)) do
      if #name > LONGEST or redis.call('hstrlen', key, name) > LONGEST then
        return nil
      end
    end
    fields = redis.call('hgetall', key)
    mode = mode_of(fields)
  else
    mode = redis.call('hstrlen', key, 'mode') <= 5 and redis.call('hget', key, 'mode')
    -- A hash that is no lock may have huge values: one is looked at before many are read.
    fields = redis.call('hscan', key, 0, 'count', 1)[2]
    if fields[2] and #fields[2] > LONGEST then
      return nil
    end
    fields = redis.call('hscan', key, 0, 'count', limit)[2]
    for i = #fields, 3 * limit + 1, -1 do
      fields[i] = nil
    end
  end
  if #fields == 0 or #fields[1] > LONGEST or #fields[2] > LONGEST then
    return nil
  elseif mode == 'read' or mode == 'write' then
    return read_write(fields, mode, count)
  elseif count % 3 == 0 and fields[1]:match('^[%w+/]+') and not fields[1]:match(HOLDER) then
    local answer = group(fields, count)
    return #answer[4] > 0 and answer or nil
  end
  return plain(fields, count)
end

local function leased()
  local count = redis.call('zcount', key, '(' .. now, '+inf')
  local first = '(' .. now
  local found = redis.call('zrangebyscore', key, first, '+inf', 'withscores', 'limit', 0, limit)
  local holders, last = {}, -1
  for i = 1, #found, 2 do
    if #found[i] ~= 16 then
      return nil
    end
    last = math.max(last, tonumber(found[i + 1]) - now)
    for _, part in ipairs({found[i], 1, math.floor(tonumber(found[i + 1]) - now)}) do
      holders[#holders + 1] = part
    end
  end
  local permits = unless_refused(redis.pcall('get', free))
  permits = permits and #permits <= 20 and tonumber(permits)
  if not permits then
    return nil
  end
  -- The next acquire gives back the permits whose leases have ended: they count as free.
  local ended = redis.call('zcount', key, '-inf', now)
  return {'leased', math.floor(last), count, holders, {}, 0, false, permits + ended}
end

local function string_of_digits()
  if redis.call('strlen', key) > 20 then
    return nil
  end
  local text = redis.call('get', key)
  local count = text:match('^-?%d+$') and tonumber(text)
  return count and {'number', redis.call('pttl', key), 0, {}, {}, 0, false, count} or nil
end

local function look()
  -- Most keys are hashes. HLEN also tells whether a key is one: it fails for other types.
  local count = redis.pcall('hlen', key)
  if type(count) == 'table' then
    local kind = redis.call('type', key).ok
    if kind == 'zset' then
      return leased()
    elseif kind == 'string' then
      return string_of_digits()
    end
    return nil
  elseif count > 0 then
    return hash(count)
  end
  local length = unless_refused(redis.pcall('llen', queue)) or 0
  return length > 0 and {'lock', -2, 0, {}, waiters_of(length), length, false, false}
end

local answers, all = {}, #keys / EACH
for i = 1, all do
  local at = (i - 1) * EACH
  key, queue, places = keys[at + 1], keys[at + 2], keys[at + 3]
  token, free = keys[at + 4], keys[at + 5]
  answers[i] = look() or false
end
return answers
