-- now (part): the server's *time*, and the same in epoch milliseconds.
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
