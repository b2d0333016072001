"""What clients' scripts do at a server, one by one; its clients listen or do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis


class Server:
    """A server for one object, with its *queue*, and Java's *channel*."""

    def __init__(self, client: redis.Redis, queue: str, channel: str) -> None:
        self.client, self.queue_key, self.channel = client, queue, channel
        self.listening = client.pubsub()

    def listen(self, *clients: str, java: bool = False) -> None:
        """Subscribe as *clients* whose waiters stand in the queue do, and as *java* does."""
        waiting, wake = [
            self.queue_key.replace("_queue:", f"_{each}:") for each in ("waiting", "wake")
        ]
        ours = [] if java else [waiting]
        self.listening.subscribe(self.channel, *ours, *[f"{wake}:{each}" for each in clients])
        self.heard()

    def heard(self) -> list[tuple[str, str]]:
        """Return the messages since the last call: whom they wake, or java; and the text."""
        found = list[tuple[str, str]]()
        while (message := self.listening.get_message(timeout=0.05)) is not None:
            if message["type"] == "message":
                client = message["channel"].decode().rpartition("}")[2][1:]
                found.append((client or "java", message["data"].decode()))
        return found

    def queue(self) -> list[str]:
        """Return who stands in the queue, in order; who was granted something has a minus."""
        members = self.client.zrange(self.queue_key, 0, -1, withscores=True)
        return [f"{'-' if score < 0 else ''}{each.decode()}" for each, score in members]

    def run(self, script: Any, keys: Sequence[str], *args: Any) -> Any:
        """Run *script*, as of a client that sends messages itself."""
        return self.client.eval(script["PUBLISH"].text, len(keys), *keys, *args)
