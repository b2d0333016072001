-- tidy_permits: remove from *queue* who does not listen any more, with claims.
--
-- If *given*, permits were given away just now. Then the first client that listens and has no claim
-- is told to look. It looks when that claim is over. It needs `read_member`.
local function tidy(given)
  local members, wakes, claimed = redis.pcall('zrange', queue, 0, LOOKS_AT - 1), {}, {}
  for i, member in ipairs(members) do
    wakes[i] = wake_of(member)
  end
  local heard = redis.pcall('pubsub', NUMSUB, unpack(wakes))
  for i, member in ipairs(heard.err and {} or members) do
    if heard[2 * i] == 0 then
      redis.pcall('zrem', queue, member)
    elseif claimed_by(member) then
      claimed[claimed_by(member)] = true
    elseif given and not claimed[member] then
      given = false
      local _, _, wish = read_member(member)
      redis.pcall(PUBLISH, wakes[i], LOOK_AFTER .. wish)
    end
  end
end
