-- tell: a message that the server refuses to send from a script is sent by the client.
--
-- The answer is then the error `TELL`: the command that sends, the reply of the script, and the
-- messages, in words that `interlock._core.model.messages` reads. If the user lacks a right, the
-- server refuses the client, too, and the message is lost: nothing fails at a release for that.

local unsent = {}
local function tell(channel, message)
  local heard = redis.pcall('PUBLISH', channel, message)
  if type(heard) == 'number' then return heard end
  unsent[#unsent + 1] = {channel, tostring(message)}
  return 0
end
local function script()
  -- script
end
local reply = script()
if not unsent[1] then return reply end
local function told(value)
  if type(value) == 'number' then return string.format(':%.0f', value) end
  if type(value) == 'string' then
    local function hex(c) return string.format('%02x', string.byte(c)) end
    return '$' .. string.gsub(value, '.', hex)
  end
  if type(value) ~= 'table' then return '_' end
  local words = {'*' .. #value}
  for i, each in ipairs(value) do words[i + 1] = told(each) end
  return table.concat(words, ' ')
end
return {err = 'TELL PUBLISH ' .. told({reply or false, unsent})}
