"""A primary with replicas that a test may stop, and clients of both faces that ask them."""

from __future__ import annotations

from typing import Any

from tests.objects.awaited import Face, Stage
from tests.objects.kinds import Kind
from tests.support.servers import ReplicatedServers

LOCK = Kind("lock", lambda client, name, **options: client.lock(name, **options))
PROMPT = 8.0
"""Seconds that something may take on a busy machine which takes milliseconds."""


class Bed(Stage):
    """A face on a primary and its replicas; the lock is a plain one unless *kind* is given."""

    def __init__(self, face: Face, servers: ReplicatedServers, kind: Kind = LOCK) -> None:
        super().__init__(face, kind, servers.primary.url(), servers.primary.client())
        self.servers = servers

    def stop(self, *which: int) -> None:
        """Pause the replicas of these numbers."""
        for number in which:
            self.servers.replicas[number].pause()

    def resume(self) -> None:
        """Have all replicas go on."""
        for replica in self.servers.replicas:
            replica.resume()

    def calls(self, command: str) -> int:
        """Return how often the primary has executed *command* since `forget_calls`."""
        stats: Any = self.redis.info("commandstats")
        found = stats.get(f"cmdstat_{command}")
        return 0 if found is None else int(found["calls"])

    def forget_calls(self) -> None:
        """Count from 0 again."""
        self.redis.config_resetstat()

    async def end(self) -> None:
        """Close all, and have everything as it was."""
        self.resume()
        await super().end()
        self.redis.close()
