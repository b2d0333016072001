-- permits_acquire (part): take permits, unless there are too few or somebody waits; without a place.
expire()
local waits = not holds(holder) and queue and first()
if waits or not holds(holder) and not fits(holder) then
  return left_for(waits)
end
take(holder, lease)
if queue then
  redis.call('zrem', queue, holder, holder .. '?')
end
return nil
