-- tidy_permits: remove from *queue* who does not listen any more, with claims.
--
-- If *given*, permits were given away just now. Then the first client that listens and has no claim
-- is told to look. It looks when that claim is over.
local function tidy(given)
  local members, wakes, claimed = redis.pcall('zrange', queue, '0', '127'), {}, {}
  for i, member in ipairs(members) do
    wakes[i] = 'interlock_semaphore_wake' .. name .. ':' .. string.match(member, '^+?([^:]*)')
  end
  local heard = redis.pcall('pubsub', NUMSUB, unpack(wakes))
  for i, member in ipairs(heard.err and {} or members) do
    if heard[2 * i] == 0 then
      redis.pcall('zrem', queue, member)
    elseif string.sub(member, 1, 1) == '+' then
      claimed[string.sub(member, 2)] = true
    elseif given and not claimed[member] then
      given = false
      local wants = string.match(member, ':leased:%d+$') or string.match(member, ':.*') or ''
      redis.pcall(PUBLISH, wakes[i], LOOK_AFTER .. wants)
    end
  end
end
