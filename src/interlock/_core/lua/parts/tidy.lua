-- tidy: remove from *queue* who does not listen any more, with claims.
--
-- If *given*, a lock or permits were given away just now. Then the first client that listens and
-- has no claim is told to look. It looks when that claim is over. It needs `members`.
local function tidy(given)
  local members, claimed, heard = redis.pcall('zrange', queue, 0, LOOKS_AT - 1), {}, {}
  listening(members, heard)
  for _, member in ipairs(members) do
    local claim, client, _, wish = claimed_by(member), read_member(member)
    if client ~= '' and heard[member] == false then
      redis.pcall('zrem', queue, member)
    elseif claim then
      claimed[claim] = true
    elseif client ~= '' and given and not claimed[member] then
      given = false
      send(client, LOOK_AFTER .. wish)
    end
  end
end
