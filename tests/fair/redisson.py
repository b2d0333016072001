"""Redisson's side of a fair lock, written from a description of the wire, not from its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fair.places import CHANNEL, LOCK, QUEUE, TIMEOUTS

if TYPE_CHECKING:
    from tests.fair.places import Places

_PURGE = """
local lock, queue, timeouts, owner, wait, now = \
KEYS[1], KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
while true do
  local first = redis.call('lindex', queue, 0)
  local score = first and redis.call('zscore', timeouts, first)
  if not score or tonumber(score) > now then break end
  redis.call('zrem', timeouts, first)
  redis.call('lpop', queue)
end
"""
_ACQUIRE = (
    _PURGE
    + """
local first = redis.call('lindex', queue, 0)
if redis.call('exists', lock) == 0 and (not first or first == owner) then
  redis.call('lpop', queue)
  redis.call('zrem', timeouts, owner)
  for _, other in ipairs(redis.call('zrange', timeouts, 0, -1)) do
    redis.call('zincrby', timeouts, -wait, other)
  end
  redis.call('hset', lock, owner, 1)
  redis.call('pexpire', lock, 30000)
  return nil
end
if redis.call('hexists', lock, owner) == 1 then
  redis.call('hincrby', lock, owner, 1)
  redis.call('pexpire', lock, 30000)
  return nil
end
if redis.call('zscore', timeouts, owner) then
  return math.max(0, redis.call('pttl', lock))
end
local last, ttl = redis.call('lindex', queue, -1), redis.call('pttl', lock)
if last and last ~= owner and redis.call('zscore', timeouts, last) then
  ttl = tonumber(redis.call('zscore', timeouts, last)) - now
end
if redis.call('zadd', timeouts, ttl + wait + now, owner) == 1 then
  redis.call('rpush', queue, owner)
end
return ttl
"""
)
_RELEASE = (
    _PURGE
    + """
local first = redis.call('lindex', queue, 0)
if redis.call('exists', lock) == 1 then
  if redis.call('hexists', lock, owner) == 0 then return nil end
  if redis.call('hincrby', lock, owner, -1) > 0 then return 0 end
  redis.call('del', lock)
end
if first then redis.call('publish', ARGV[4] .. ':' .. first, '0') end
return 1
"""
)
_GIVE_UP = (
    "local lock, queue, timeouts, owner, wait = "
    "KEYS[1], KEYS[2], KEYS[3], ARGV[1], tonumber(ARGV[2])"
    """
local behind = false
for _, other in ipairs(redis.call('lrange', queue, 0, -1)) do
  if behind then redis.call('zincrby', timeouts, -wait, other) end
  behind = behind or other == owner
end
redis.call('zrem', timeouts, owner)
redis.call('lrem', queue, 0, owner)
"""
)


class Redisson:
    """An owner in a JVM.

    Args:
        places: the lock.
        owner: whom it stands for.
        wait: seconds, its fairLockWaitTimeout.
    """

    def __init__(self, places: Places, owner: str, wait: float = 300.0) -> None:
        self._places = places
        self._owner = owner
        self._wait = wait

    def has(self) -> bool:
        """Ask for the lock, or for a place in the queue; return whether it has it."""
        return self._run(_ACQUIRE) is None

    def release(self) -> bool:
        """Go down by one."""
        return self._run(_RELEASE) is not None

    def give_up(self) -> None:
        """Leave the queue."""
        self._run(_GIVE_UP)

    def _run(self, text: str) -> object:
        wait, now = int(self._wait * 1000), int(self._places.now * 1000)
        return self._places.redis.eval(
            text, 3, LOCK, QUEUE, TIMEOUTS, self._owner, wait, now, CHANNEL
        )
