-- once (part): end here, with the same answer, if this call has been executed: it counts once. The
-- key *request* has the last call of those that use it one after the other, and their numbers grow.
local last = redis.call('get', request)
if last and string.sub(last, 1, 12) >= number then
  return tonumber(string.sub(last, 14))
end
