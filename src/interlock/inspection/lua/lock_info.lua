-- lock_info: tell what kind of lock each key is, who holds it, and who stands in its queue.
--
-- It changes nothing. A key that is no lock costs a few short commands. The caller reads the
-- entries of readers, which only the server knows, by a second call. The lock's own key stands for
-- a key that the user may not read: it is of another type, and so counts as missing.
--
-- KEYS[1]     key      hash of a lock, zset of a leased semaphore, or string of a number
-- KEYS[2]     queue    the list of a fair lock
-- KEYS[3]     places   the zset with the deadlines of that list
-- KEYS[4]     token    the fencing token
-- KEYS[5]     permits  the free permits of a leased semaphore, or all permits of a semaphore
-- KEYS[6]     latch    the first count of a latch
-- KEYS[7..n]  more     six for the next lock, and so on
-- ARGV[1]     limit    integer > 0, how many holders, and how many waiters, are returned at most
--
-- Returns  for each lock: nil if it is no lock; else {kind, milliseconds that are left, number of
--          holders, {holder, depth, milliseconds, ...}, {waiter, milliseconds, ...}, length of the
--          queue, token, free permits or count, all permits or first count}; a reader has what is
--          left of the lock
-- Source   none; the keys are those of Redisson 4.7.0
-- Wire     nothing is written
local key, queue, places, token = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local permits, latch = KEYS[5], KEYS[6]
local keys, limit = KEYS, tonumber(ARGV[1])
local EACH = 6
local HOLDER, LONGEST = '^[%x-]+:%d+$', 400

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function unless_refused(reply)
  return not (type(reply) == 'table' and reply.err) and reply
end

-- The number that a text of at most so many characters begins with.
local function number_in(text, longest)
  return text and #text <= longest and tonumber(text:match('^-?%d+'))
end

local function depth_of(text)
  return text:match('^%d+$') and number_in(text, 10)
end

local function add(list, ...)
  for _, each in ipairs({...}) do
    list[#list + 1] = each
  end
end

local function answer(kind, left, count, holders, waiters, length, drawn, free, all)
  local queued = waiters or {}
  return {kind, left, count, holders, queued, length or 0, drawn or false, free or false, all or false}
end

-- Fields with depths, which hold the lock for as long as its key lives; nil if others are there.
local function holders_of(fields, except, left)
  local holders = {}
  for i = 1, #fields, 2 do
    local depth, holder = depth_of(fields[i + 1]), fields[i]:gsub(':write$', '')
    if fields[i] ~= except then
      if not depth or not holder:match(HOLDER) then
        return nil
      end
      add(holders, fields[i], depth, left)
    end
  end
  return holders
end

local function group(fields, count)
  local holders, depths = {}, {}
  for i = 1, #fields, 2 do
    local holder = fields[i]:match('^[^:]+:([%x-]+:%d+):lock_count$')
    local depth = depth_of(fields[i + 1])
    if holder and depth then
      local ends = redis.call('hget', key, (fields[i]:gsub('lock_count$', 'expire_time')))
      ends = ends and tonumber(ends)
      if ends and ends > now and not depths[holder] then
        depths[holder] = depth
        add(holders, holder, depth, ends - now)
      end
    end
  end
  -- A holder of several values counts once. But if only a part of the hash was read, and shows
  -- several holders, each value counts as one.
  local told = #holders / 3
  if #fields ~= 2 * count and told ~= 1 then
    told = math.max(told, math.floor(count / 3))
  end
  return #holders > 0 and answer('group_lock', redis.call('pttl', key), told, holders) or nil
end

local function waiters_of(queue_length)
  local waiters = {}
  local found = queue_length > 0 and redis.pcall('lrange', queue, 0, limit - 1)
  for _, waiter in ipairs(found and unless_refused(found) or {}) do
    if #waiter <= LONGEST then
      local ends = unless_refused(redis.pcall('zscore', places, waiter))
      add(waiters, waiter, ends and math.floor(tonumber(ends) - now) or -1)
    end
  end
  return waiters
end

local function plain(holders, count, left)
  local length = unless_refused(redis.pcall('llen', queue)) or 0
  local drawn = tonumber(unless_refused(redis.pcall('get', token)) or nil)
  local kind = length > 0 and 'fair_lock' or drawn and 'fenced_lock' or 'lock'
  return answer(kind, left, count, holders, waiters_of(length), length, drawn)
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
  elseif mode ~= 'read' and mode ~= 'write' then
    mode = nil
    if count % 3 == 0 and fields[1]:match('^[%w+/]+') and not fields[1]:match(HOLDER) then
      return group(fields, count)
    end
  end
  local left = redis.call('pttl', key)
  local holders = holders_of(fields, mode and 'mode', left)
  if holders and mode then
    return answer(mode, left, count - 1, holders)
  end
  return holders and plain(holders, count, left)
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
    add(holders, found[i], 1, math.floor(tonumber(found[i + 1]) - now))
  end
  local free = number_in(unless_refused(redis.pcall('get', permits)), 20)
  -- The next acquire gives back the permits whose leases have ended: they count as free.
  local ended = redis.call('zcount', key, '-inf', now)
  local left, kind = math.floor(last), 'leased_semaphore'
  return free and answer(kind, left, count, holders, nil, nil, nil, free + ended)
end

-- A semaphore or latch, by what Python has set up; else nothing tells which of them it is.
local function number()
  local free = redis.call('strlen', key) <= 20 and redis.call('get', key)
  if not free or not free:match('^-?%d+$') then
    return nil
  end
  local kind, all = 'count_down_latch', number_in(unless_refused(redis.pcall('get', latch)), 40)
  if not all then
    kind, all = 'semaphore', number_in(unless_refused(redis.pcall('get', permits)), 40)
  end
  return answer(kind, redis.call('pttl', key), 0, {}, nil, nil, nil, tonumber(free), all)
end

local function look()
  -- Most keys are hashes. HLEN also tells whether a key is one: it fails for other types.
  local count = redis.pcall('hlen', key)
  if type(count) == 'table' then
    local kind = redis.call('type', key).ok
    return kind == 'zset' and leased() or kind == 'string' and number() or nil
  elseif count > 0 then
    return hash(count)
  end
  local length = unless_refused(redis.pcall('llen', queue)) or 0
  return length > 0 and answer('fair_lock', -2, 0, {}, waiters_of(length), length)
end

local answers = {}
for at = 0, #keys - EACH, EACH do
  key, queue, places, token = keys[at + 1], keys[at + 2], keys[at + 3], keys[at + 4]
  permits, latch = keys[at + 5], keys[at + 6]
  answers[#answers + 1] = look() or false
end
return answers
