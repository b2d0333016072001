-- lock_info: tell what the keys of an object hold, if it may be a lock, a semaphore or a latch.
--
-- It changes nothing. A key that is no lock costs a few short commands. The caller judges what the
-- fields mean, and reads the entries of readers, which only the server knows, by a second call.
-- The key itself stands for one that there is not: it is of another type, and counts as missing.
--
-- The *key* is the hash of a lock, the zset of permits, or the string of a number. With it come the list
-- and the deadlines of a fair lock, the fencing token, the free permits of a leased semaphore or all
-- permits of a semaphore, the first count of a latch, and two queues: of a lock or of permits, and of a
-- read/write lock. A member of a queue has the microseconds when it came; negative: when it was granted
-- the lock.
--
-- KEYS     key, queue, places, token, permits, latch, line, sides
-- ARGV     #limit
--
-- Returns  nil if it is none; else {type, milliseconds that are left, number of fields or permits,
--          {field, value, ...} or {permit, milliseconds, ...}, mode, {waiter, milliseconds, ...},
--          length of the queue, token, free permits or count, all permits, first count of a latch,
--          epoch milliseconds, {member of the line, score in milliseconds, ...}, its length}
-- Source   none; the keys are those of Redisson 4.7.0
-- Wire     nothing is written
local LONGEST = 400

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function unless_refused(reply)
  return not (type(reply) == 'table' and reply.err) and reply
end

local function number_in(reply)
  local text = unless_refused(reply)
  return text and #text <= 40 and tonumber(text:match('^-?%d+')) or false
end

-- Some fields of a hash; nothing if one is too long, or has no holder in its name or as its value.
local function fields_of(count)
  local found
  if count > limit then
    -- A hash that is no lock may have huge values: one is looked at before many are read.
    local first = redis.call('hscan', key, 0, 'count', 1)[2]
    found = #first[2] <= LONGEST and redis.call('hscan', key, 0, 'count', limit)[2] or {}
    found = {unpack(found, 1, math.min(#found, 6 * limit))}
  else
    for _, name in ipairs(redis.call('hkeys', key)) do
      if #name > LONGEST or redis.call('hstrlen', key, name) > LONGEST then
        return {}
      end
    end
    found = redis.call('hgetall', key)
  end
  for i = 1, #found, 2 do
    local name, value = found[i], found[i + 1]
    if #name > LONGEST or #value > LONGEST then
      return {}
    elseif name ~= 'mode' and not name:match('[%x-]+:%d+') and not value:match('^[%x-]+:%d+$') then
      return {}
    end
  end
  return found
end

-- Whether a read/write lock is read or written; of a big hash only some fields were read.
local function mode_in(fields, count)
  for i = 1, #fields, 2 do
    if fields[i] == 'mode' then
      return fields[i + 1]
    end
  end
  return count > limit and redis.call('hstrlen', key, 'mode') <= 5 and redis.call('hget', key, 'mode')
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

-- Each of these reads a key that its call names, as strict servers want it. A queue is counted if
-- there is more of it than was read.
local function in_line()
  local found = redis.pcall('zrangebyscore', line, '-inf', '+inf', 'withscores', 'limit', 0, limit)
  return found, #found == 2 * limit and redis.pcall('zcount', line, '-inf', '+inf') or #found / 2
end

local function in_sides()
  local found = redis.pcall('zrangebyscore', sides, '-inf', '+inf', 'withscores', 'limit', 0, limit)
  return found, #found == 2 * limit and redis.pcall('zcount', sides, '-inf', '+inf') or #found / 2
end

local function members_of(found, standing)
  local members = {}
  found = unless_refused(found) or {}
  for i = 1, #found, 2 do
    if #found[i] <= LONGEST then
      members[#members + 1] = found[i]
      members[#members + 1] = math.floor(math.max(-1e15, math.min(tonumber(found[i + 1]) / 1000, 1e15)))
    end
  end
  return members, unless_refused(standing) or 0
end

-- Most keys are hashes. HLEN also tells whether a key is one: it fails for other types.
local count = redis.pcall('hlen', key)
if type(count) == 'number' then
  local length = unless_refused(redis.pcall('llen', queue)) or 0
  local fields = count > 0 and fields_of(count) or {}
  local mode = mode_in(fields, count)
  local members, standing = members_of((mode and in_sides or in_line)())
  if standing == 0 and count == 0 then
    members, standing = members_of(in_sides())
  end
  if count + length + standing == 0 or (count > 0 and #fields == 0) then
    return false
  end
  local left, drawn = redis.call('pttl', key), number_in(redis.pcall('get', token))
  local waiters = waiters_of(length)
  return {'hash', left, count, fields, mode, waiters, length, drawn, false, false, false, now, members, standing}
end

local kind = redis.call('type', key).ok
if kind == 'zset' then
  local first, held, last = '(' .. now, {}, -1
  local found = redis.call('zrangebyscore', key, first, '+inf', 'withscores', 'limit', 0, limit)
  local limited = found[1] and found[1]:match('^[%x-]+:%d+%.%d+$')
  for i = 1, #found, 2 do
    if #found[i] ~= 16 and not found[i]:match('^[%x-]+:%d+%.%d+$') then
      return false
    end
    held[i], held[i + 1] = found[i], math.floor(tonumber(found[i + 1]) - now)
    last = math.max(last, held[i + 1])
  end
  -- The next acquire gives back the permits whose leases have ended: they count as free.
  local ended, free = redis.call('zcount', key, '-inf', now), number_in(redis.pcall('get', permits))
  local all = redis.call('zcount', key, first, '+inf')
  local members, standing = members_of(in_line())
  if not free and not limited then
    return false
  end
  free = free and free + ended
  return {'zset', last, all, held, false, {}, 0, false, free, false, false, now, members, standing}
elseif kind == 'string' and redis.call('strlen', key) <= 20 then
  local free = redis.call('get', key):match('^-?%d+$')
  local all, set_up = number_in(redis.pcall('get', permits)), number_in(redis.pcall('get', latch))
  local left = free and redis.call('pttl', key)
  return free and {'string', left, 0, {}, false, {}, 0, false, tonumber(free), all, set_up, now, {}, 0}
end
return false
