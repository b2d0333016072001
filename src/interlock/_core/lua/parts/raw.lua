-- raw: return the bytes of an id, which *digits* are in hex. Redisson stores ids of permits so.
local function raw(digits)
  return (string.gsub(digits, '%x%x', function(byte) return string.char(tonumber(byte, 16)) end))
end
