-- tidy: if *leaving* is "-" and the lock is held, remove from *queue* who does not listen any more.
--
-- If the lock was given away just now, the first client that listens is told to look when the claim
-- is over. The names are those of lock_release.
local left = leaving == '-' and queue and redis.call('pttl', lock) or -2
if left ~= -2 then
  local members, wakes = redis.pcall('zrange', queue, 0, LOOKS_AT - 1), {}
  for i, member in ipairs(members) do
    local wake = 'interlock_wake' .. string.match(channel, ':.*')
    wakes[i] = wake .. ':' .. string.match(member, '^[^:]*')
  end
  local heard = redis.pcall('pubsub', NUMSUB, unpack(wakes))
  local given = left > 0 and left <= CLAIM
  for i, member in ipairs(heard.err and {} or members) do
    local client = string.sub(member, 1, 1) ~= ':'
    if client and heard[2 * i] == 0 then
      redis.pcall('zrem', queue, member)
    elseif client and given then
      given = false
      redis.pcall(PUBLISH, wakes[i], LOOK_AFTER)
    end
  end
end
