-- notify (part): move waiters from the condition to the end of the lock's queue.
--
-- Who does not listen just now loses its place instead: if it lives, its look finds that, and it
-- wakes. So a notification may wake one too many, never too few. Where there is no queue, all of a
-- client's waiters look, as they do if nobody holds the lock, and would release it to them.
local MOST = 1000 -- waiters who do not listen; after those all are woken
local heard = {} -- by client: whether it listens
-- Clients listen to the same channels whether they may use the queue or not.
local alarms = queue and wakes or 'interlock_wake' .. string.match(channel, ':.*') .. ':'
local function notify(count)
  local moved, lost, looks = 0, 0, not queue or redis.call('exists', lock) == 0
  while moved < count do
    local member = lost < MOST and redis.call('zrange', condition, '0', '0')[1]
    if not member then
      redis.call('del', condition)
      break
    end
    local client, deaf = string.match(member, '^[^:]*'), string.sub(member, -1) == '?'
    if not deaf and heard[client] == nil then
      local counts = redis.pcall('pubsub', NUMSUB, alarms .. client)
      heard[client] = not counts.err and counts[2] > 0
    end
    redis.call('zrem', condition, member)
    if deaf or heard[client] then
      if queue then
        local former, score = '', nil
        -- include: join
      end
      if looks then
        redis.pcall(PUBLISH, alarms .. client, '')
      end
      moved = moved + 1
    else
      lost = lost + 1
    end
  end
  return moved
end
