"""A user of a server whose password changes."""

from __future__ import annotations

import itertools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.servers import RedisServer


class Rotation:
    """A user of a server whose only password changes; what it is now is the provider's answer."""

    def __init__(self, server: RedisServer, every: float) -> None:
        self.server, self.every = server, every
        self.asked = 0
        self._numbers = itertools.count()
        self.password = ""
        self.changes = 0
        self.change()

    def change(self) -> None:
        """Replace the password; connections that logged in with the former one stay."""
        self.changes += 1
        self.password = f"secret-{next(self._numbers)}"
        self.server.execute("ACL", "SETUSER", "app", "resetpass", f">{self.password}")

    def logins(self) -> int:
        stats: Any = self.server.execute("INFO", "commandstats")
        return int(stats.get("cmdstat_auth", {"calls": 0})["calls"])

    def connections(self) -> set[str]:
        client: Any = self.server.client()
        found = client.client_list()
        return {each["id"] for each in found if each["user"] == "app"}

    def get_credentials(self) -> tuple[str, str, float]:
        self.asked += 1
        return "app", self.password, self.every

    @contextmanager
    def turning(self) -> Generator[None]:
        over = threading.Event()

        def turn() -> None:
            while not over.wait(self.every):
                self.change()

        thread = threading.Thread(target=turn)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
