"""A primary with replicas that a test may stop, and clients of both faces that ask them."""

from __future__ import annotations

from tests.objects.awaited import Face, Stage
from tests.objects.kinds import Kind
from tests.support.servers import ReplicatedServers

PROMPT = 8.0
"""Seconds that something may take on a busy machine which takes milliseconds."""


class Bed(Stage):
    """A face on a primary and its replicas."""

    def __init__(self, face: Face, servers: ReplicatedServers, kind: Kind) -> None:
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

    async def end(self) -> None:
        """Close all, and have everything as it was."""
        self.resume()
        await super().end()
        self.redis.close()
