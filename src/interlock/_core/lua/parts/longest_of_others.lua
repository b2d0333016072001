-- longest_of_others: return the longest lease of the readers besides *holder*, or -2.
--
-- The dead readers are removed. If entries are lacking, the error that asks for them is returned,
-- and nothing is changed. It needs `readers`.
local function longest_of_others()
  local longest, fields, dead = -2, redis.call('hgetall', lock), {}
  for i = 1, #fields, 2 do
    if fields[i] ~= holder and fields[i] ~= 'mode' then
      local left = lease_of(fields[i], tonumber(fields[i + 1]))
      if left == -2 then
        dead[#dead + 1] = fields[i]
      end
      longest = math.max(longest, left)
    end
  end
  local lacking = asks()
  for _, reader in ipairs(lacking and {} or dead) do
    redis.call('hdel', lock, reader)
  end
  return lacking or longest
end
