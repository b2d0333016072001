"""A server that tells what its listeners heard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis


class Server:
    """A server that runs commands, and those who listen to it."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._ears = client.pubsub()
        self._ears.subscribe("nothing")
        self.listen()

    def execute(self, *words: Any) -> Any:
        """Run a command."""
        return self._client.execute_command(*words)

    def listen(self, *channels: str) -> None:
        """Listen to *channels*, and to a second connection's echo."""
        for channel in (*channels, "end"):
            self._ears.subscribe(channel)
        _ = self.heard()

    def heard(self) -> list[tuple[str, str]]:
        """Return what came before a message that is sent now."""
        self._client.publish("end", "")
        found: list[tuple[str, str]] = []
        while True:
            message = self._ears.get_message(timeout=5)
            assert message is not None
            if message["type"] != "message":
                continue
            if message["channel"] == b"end":
                return found
            found.append((message["channel"].decode(), message["data"].decode()))

    def close(self) -> None:
        """Listen no more."""
        self._ears.close()
