-- lock_keep: have the lock end by itself after *rest*, and not before, whatever its lease was.
--
-- Waiters hear no message: they look again when the lease that they were told of ends, or at their next poll.
--
-- KEYS[1]  lock    hash {holder: depth}; its TTL is the lease
-- ARGV[1]  rest    integer > 0, milliseconds
-- ARGV[2]  holder  string, "<client id>:<number>"
--
-- Returns  1 when done; nil when this holder does not hold the lock (nothing changed)
-- Source   lockAtLeastFor of ShedLock
-- Wire     the TTL; this text is our own
local lock, rest, holder = KEYS[1], tonumber(ARGV[1]), ARGV[2]

if redis.call('hexists', lock, holder) == 0 then
  return nil
end
redis.call('pexpire', lock, rest)
return 1
