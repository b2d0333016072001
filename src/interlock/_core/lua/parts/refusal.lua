-- refusal: put *client* into *queue*, and return *left*, what it is told.
--
-- If more than 32 clients stand there, it most often gets their number instead, negated. Then it
-- looks more rarely. By chance, about 32 of all still get *left*, and look as usual.
local function refusal(left)
  local _, microseconds = stand_in_queue()
  local clients = redis.pcall('zcard', queue)
  if type(clients) == 'number' and clients > 32
    and (tonumber(microseconds) or 0) % clients >= 32 then
    return -clients
  end
  return left
end
