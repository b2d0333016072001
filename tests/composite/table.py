"""The setting of multi and red lock tests: a face, some servers, and a client of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.objects.awaited import Face, Stage
from tests.objects.kinds import Kind
from tests.support.cards import is_card

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.servers import RedisServer

_NONE = Kind("joint", lambda *_: None)


class Table(Stage):
    """A face and the servers of a test.

    Attributes:
        servers: all of them.
    """

    def __init__(self, face: Face, servers: Sequence[RedisServer]) -> None:
        super().__init__(face, _NONE, servers[0].url(), redis_client=None)
        self.servers = servers

    def clients(self, urls: Sequence[str] | None = None, **options: Any) -> list[Any]:
        chosen = urls or [server.url() for server in self.servers]
        return [self.client(url, **options) for url in chosen]

    def red(self, clients: Sequence[Any], name: str = "name", **options: Any) -> Any:
        return self.face.module.RedLock(*[client.lock(name) for client in clients], **options)

    def multi(self, client: Any, *names: str, **options: Any) -> Any:
        return client.multi_lock(*[client.lock(name) for name in names], **options)

    def stored(self) -> list[list[str]]:
        return [self.keys_of(server) for server in self.servers if server.alive]

    @staticmethod
    def keys_of(server: RedisServer) -> list[str]:
        """Return the keys of locks on *server*, without the clients' cards."""
        keys = server.execute("KEYS", "*")
        assert isinstance(keys, list)
        notes = b"interlock_forced:"  # that of a hold whose loss its own client has caused
        return sorted(key.decode() for key in keys if not (is_card(key) or key.startswith(notes)))
