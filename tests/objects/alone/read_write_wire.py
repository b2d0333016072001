"""A read/write lock as it is on the server."""

from __future__ import annotations

import redis

CHANNEL = "redisson_rwlock:{name}"
END = "the end of what is heard"


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

    def left(self) -> int:
        """Return what is left of the hash, in milliseconds."""
        return self.redis.pttl("name")
