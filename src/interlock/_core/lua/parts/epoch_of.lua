-- Return the epoch of the number of permits: when our clients have made it. It is "0" if another
-- program has made it. What was taken in another epoch does not count in this one.
local function epoch_of()
  local value = total and redis.pcall('get', total)
  return type(value) == 'string' and string.match(value, ' (%d+)$') or '0'
end
