-- chosen: return whether *holder*, one of many readers, is the one of seventeen that looks at all.
--
-- If only their number decided, it would choose all that come at once: none of them changes it
-- before the second round trip. Seventeen is a prime, so each run of numbers that go up or down
-- meets it.
local MANY = 16
local function chosen(readers)
  return (readers + 2 * tonumber(string.match(holder, '%d+$') or 0)) % (MANY + 1) == 0
end
