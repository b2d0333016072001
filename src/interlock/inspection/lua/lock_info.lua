-- lock_info: tell what the keys of each object hold, if it may be a lock, a semaphore or a latch.
--
-- It changes nothing. A key that is no lock costs a few short commands. The caller judges what the
-- fields mean, and reads the entries of readers, which only the server knows, by a second call.
-- The key itself stands for one that there is not: it is of another type, and counts as missing.
--
-- KEYS[1]     key      hash of a lock, zset of a leased semaphore, or string of a number
-- KEYS[2]     queue    the list of a fair lock
-- KEYS[3]     places   the zset with the deadlines of that list
-- KEYS[4]     token    the fencing token
-- KEYS[5]     permits  the free permits of a leased semaphore, or all permits of a semaphore
-- KEYS[6]     latch    the first count of a latch
-- KEYS[7..n]  more     six for the next object, and so on
-- ARGV[1]     limit    integer > 0, how many holders, and how many waiters, are returned at most
--
-- Returns  for each object: nil if it is none; else {type, milliseconds that are left, number of
--          fields or permits, {field, value, ...} or {permit, milliseconds, ...}, mode,
--          {waiter, milliseconds, ...}, length of the queue, token, free permits or count, all
--          permits, first count of a latch, epoch milliseconds}
-- Source   none; the keys are those of Redisson 4.7.0
-- Wire     nothing is written
local key, queue, places, token = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local permits, latch = KEYS[5], KEYS[6]
local keys, limit = KEYS, tonumber(ARGV[1])
local EACH, LONGEST = 6, 400

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function unless_refused(reply)
  return not (type(reply) == 'table' and reply.err) and reply
end

local function number_in(reply)
  local text = unless_refused(reply)
  return text and #text <= 40 and tonumber(text:match('^-?%d+')) or false
end

-- Some fields of a hash, or nil if one is too long.
local function fields_of(count)
  if count > limit then
    -- A hash that is no lock may have huge values: one is looked at before many are read.
    local first = redis.call('hscan', key, 0, 'count', 1)[2]
    local found = #first[2] <= LONGEST and redis.call('hscan', key, 0, 'count', limit)[2]
    return found and {unpack(found, 1, math.min(#found, 6 * limit))}
  end
  for _, name in ipairs(redis.call('hkeys', key)) do
    if #name > LONGEST or redis.call('hstrlen', key, name) > LONGEST then
      return nil
    end
  end
  return redis.call('hgetall', key)
end

-- Whether a lock may have such fields: each has a holder, in its name or as its value.
local function fit(fields)
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    if #name > LONGEST or #value > LONGEST then
      return false
    elseif name ~= 'mode' and not name:match('[%x-]+:%d+') and not value:match('^[%x-]+:%d+$') then
      return false
    end
  end
  return true
end

local function waiters_of(length)
  local waiters = {}
  local found = length > 0 and redis.pcall('lrange', queue, 0, limit - 1)
  for _, waiter in ipairs(found and unless_refused(found) or {}) do
    if #waiter <= LONGEST then
      local ends = unless_refused(redis.pcall('zscore', places, waiter))
      waiters[#waiters + 1] = waiter
      waiters[#waiters + 1] = ends and math.floor(tonumber(ends) - now) or -1
    end
  end
  return waiters
end

local function hash(count)
  local length = unless_refused(redis.pcall('llen', queue)) or 0
  local fields = count > 0 and fields_of(count) or {}
  if count + length == 0 or (count > 0 and #fields == 0) or not fit(fields) then
    return nil
  end
  local mode = redis.call('hstrlen', key, 'mode') <= 5 and redis.call('hget', key, 'mode')
  local left, drawn = redis.call('pttl', key), number_in(redis.pcall('get', token))
  return {'hash', left, count, fields, mode, waiters_of(length), length, drawn}
end

local function zset()
  local first, held, last = '(' .. now, {}, -1
  local found = redis.call('zrangebyscore', key, first, '+inf', 'withscores', 'limit', 0, limit)
  for i = 1, #found, 2 do
    if #found[i] ~= 16 then
      return nil
    end
    held[i], held[i + 1] = found[i], math.floor(tonumber(found[i + 1]) - now)
    last = math.max(last, held[i + 1])
  end
  -- The next acquire gives back the permits whose leases have ended: they count as free.
  local ended, free = redis.call('zcount', key, '-inf', now), number_in(redis.pcall('get', permits))
  local count = redis.call('zcount', key, first, '+inf')
  return free and {'zset', last, count, held, false, {}, 0, false, free + ended}
end

local function look()
  -- Most keys are hashes. HLEN also tells whether a key is one: it fails for other types.
  local count = redis.pcall('hlen', key)
  if type(count) == 'number' then
    return hash(count)
  end
  local kind = redis.call('type', key).ok
  if kind == 'zset' then
    return zset()
  elseif kind == 'string' and redis.call('strlen', key) <= 20 then
    local free = redis.call('get', key):match('^-?%d+$')
    local left = free and redis.call('pttl', key)
    return free and {'string', left, 0, {}, false, {}, 0, false, tonumber(free)}
  end
end

local answers = {}
for at = 0, #keys - EACH, EACH do
  key, queue, places, token = keys[at + 1], keys[at + 2], keys[at + 3], keys[at + 4]
  permits, latch = keys[at + 5], keys[at + 6]
  local found = look() or false
  if found then
    found[9] = found[9] or false
    found[10] = found[1] == 'string' and number_in(redis.pcall('get', permits)) or false
    found[11] = found[1] == 'string' and number_in(redis.pcall('get', latch)) or false
    found[12] = now
  end
  answers[#answers + 1] = found
end
return answers
