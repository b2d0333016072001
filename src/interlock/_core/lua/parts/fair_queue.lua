-- fair_queue (part): remove the dead from the head of a fair lock's queue, and let the others move up.
--
-- fair_ask tells how. The names are those of fair_release.
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000) - 0.75

local function deadline_of(waiter)
  return tonumber(redis.call('zscore', timeouts, waiter))
end

-- Remove the dead from *head* on, *gone* waiters having left; return who is first, and how many
-- have left.
local function drop_dead(head, gone)
  while head do
    local deadline = deadline_of(head)
    if deadline and deadline - (deadline % 1 > 0 and gone * wait or 0) > now then
      break
    end
    redis.call('lpop', queue)
    redis.call('zrem', timeouts, head)
    gone, head = gone + 1, redis.call('lindex', queue, 0)
  end
  return head, gone
end

-- Take a *wait* for each of *gone* off the deadlines from *place* on, but leave *floor* of them.
local function move_up(place, gone, floor)
  for _, waiter in ipairs(redis.call('lrange', queue, place, -1)) do
    local deadline = deadline_of(waiter)
    if deadline and deadline % 1 > 0 and deadline > floor then
      redis.call('zadd', timeouts, math.max(deadline - gone * wait, floor), waiter)
    end
  end
end
