-- let_in (part): who is let in from a queue, and their news; it needs *now* and *wakes*.
local clients, numbers = {}, {}

-- Note that *one* is let in; who cannot listen finds out.
local function let_in(one, client, number)
  if string.sub(one, -1) == '?' then
    return
  end
  if not numbers[client] then
    clients[#clients + 1], numbers[client] = client, {}
  end
  numbers[client][#numbers[client] + 1] = number
end

-- Tell each client by one message which of its members were let in; *open* is as in queue. Return the
-- numbers of those of the client *caller*, or nil, and the news for them.
local function tell_all(caller, open)
  local told, ours = now .. '||' .. open, nil
  for _, client in ipairs(clients) do
    local all = table.concat(numbers[client], ' ')
    if client == caller then
      ours = all
    else
      redis.pcall(PUBLISH, wakes .. client, all .. '|' .. told)
    end
  end
  return ours, told
end
