-- Note in the key *total* the number of all permits, and that a new epoch begins. The epoch is the
-- time in microseconds, below 2^51: a script can multiply it by 4.
local function begin_epoch(permits)
  local time = redis.call('time')
  local epoch = string.format('%.0f', (time[1] * 1000000 + time[2]) % 2251799813685248)
  redis.call('set', total, permits .. ' ' .. epoch)
end
