-- tidy: remove from *queue* who does not listen any more, with claims.
--
-- If *given*, a lock or permits were given away just now. Then the first client that listens and
-- has no claim is told to look. It looks when that claim is over. It needs `members`.
local function tidy(given)
  local members, claimed = redis.pcall('zrange', queue, 0, LOOKS_AT - 1), {}
  local heard = listening(members)
  for _, member in ipairs(members) do
    local claim, client = claimed_by(member), read_member(member)
    if client ~= '' and not heard[member] then
      redis.pcall('zrem', queue, member)
    elseif claim then
      claimed[claim] = true
    elseif client ~= '' and given and not claimed[member] then
      given = false
      send(member, LOOK_AFTER)
    end
  end
end
