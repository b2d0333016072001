-- draw (part): return a token of *counter* and what it follows: 'epoch', 'clock' or 'counter'.
--
-- The token is *new*, or the last one. It is above *floor* and above *unit* times the node's epoch.
-- *tells* says whether the source matters for the last token too.
local function draw(new, tells)
  local token, source = redis.call('get', counter), 'counter'
  local last, above = tonumber(token) or 0, floor
  new = new or not token
  if unit > 0 and (new or tells) then
    local info = redis.pcall('cluster', 'info')
    local refused = info.err or ''
    if string.find(refused, 'permission') or string.find(refused, 'user executing') then
      redis.call('cluster', 'info')  -- the user has too few rights: that can be mended
    end
    local epoch = type(info) == 'string' and string.match(info, 'cluster_my_epoch:(%d+)')
    -- Dragonfly always tells 1 and 1. A cluster with true epochs may do so, too, and fail over:
    -- then its nodes have sent pings. Tokens of its next epochs would be below those of a clock.
    local constant = epoch == '1' and string.find(info, 'cluster_current_epoch:1%s')
      and not string.find(info, 'ping_sent:')
    if epoch and not constant and last < (tonumber(epoch) + 1) * unit then
      above, source = math.max(above, tonumber(epoch) * unit), 'epoch'
    else
      local time = redis.pcall('time')
      if time[1] then
        above, source = math.max(above, time[1] * 1000000 + time[2]), 'clock'
      end
    end
  end
  if new then
    token = redis.call('incrby', counter, math.max(last, above) - last + 1)
  end
  return tonumber(token), source
end
