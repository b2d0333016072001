"""A read/write lock as it is on the server, and Redisson's side of it.

That side is written from the description of what Redisson does on the wire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis

CHANNEL = "redisson_rwlock:{name}"
END = "the end of what is heard"
JAVA = "2f5ca6ef-60f2-4fd7-9a8c-5ad1e9f8a0ff:38"

_READ = """
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call('hset', KEYS[1], 'mode', 'read')
elseif mode == 'write' and redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 0 then
  return redis.call('pttl', KEYS[1])
end
local count = redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('set', KEYS[2] .. ':' .. count, 1)
redis.call('pexpire', KEYS[2] .. ':' .. count, ARGV[2])
redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), ARGV[2]))
return nil
"""


class Wire:
    """The keys of the lock *name* and what is published."""

    def __init__(self, client: redis.Redis) -> None:
        self.redis = client
        self._heard = client.pubsub(ignore_subscribe_messages=True)
        self._heard.subscribe(CHANNEL, END)
        for _ in range(2):
            self._heard.get_message(timeout=5)

    def close(self) -> None:
        """Hear no more."""
        self._heard.close()

    def heard(self) -> list[str]:
        """Return what was published since the last time."""
        self.redis.publish(END, "")
        messages: list[str] = []
        while (message := self._heard.get_message(timeout=5))["channel"] != END.encode():
            messages.append(message["data"].decode())
        return messages

    def hash(self) -> dict[str, str]:
        """Return the hash."""
        return {key.decode(): value.decode() for key, value in self.redis.hgetall("name").items()}

    def alive(self) -> int:
        """Return how many entries of readers have not ended yet."""
        return len([*self.redis.scan_iter("{name}:*:rwlock_timeout:*")])

    def left(self) -> int:
        """Return what is left of the hash, in milliseconds."""
        return self.redis.pttl("name")

    # Redisson's side.

    def java_reads(self, lease: int = 30_000, java: str = JAVA) -> Any:
        """Ask for the read lock as a Java thread; return None when it has it."""
        return self.redis.eval(_READ, 2, "name", f"{{name}}:{java}:rwlock_timeout", java, lease)
