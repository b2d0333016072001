-- missed (part): who was let in a while ago, and may not know.

-- Return the numbers of the holds of *holder*'s client that were let in at least *age* microseconds
-- ago, and have sent nothing since, or nil. Perhaps nobody read the reply or the message that told it.
local function missed(age)
  local own, found = string.match(holder, '^[^:]*:'), {}
  local since = string.format('-%.0f', now - age)
  for _, mark in ipairs(redis.call('zrangebyscore', queue, since, '(0')) do
    if string.sub(mark, 1, #own) == own and string.match(mark, '^[^?]*') ~= holder then
      found[#found + 1] = string.match(mark, '^[^?]*', #own + 1)
    end
  end
  return found[1] and table.concat(found, ' ')
end
