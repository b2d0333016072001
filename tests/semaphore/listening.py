"""A server, or the model of one, that tells what its listeners heard."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from tests.support.model.redis_model import RedisModel

if TYPE_CHECKING:
    import pytest
    import redis


class Server(Protocol):
    """A server that runs commands, and those who listen to it."""

    def execute(self, *words: Any) -> Any:
        """Run a command."""
        ...

    def listen(self, *channels: str) -> None:
        """Listen to *channels* from now on."""
        ...

    def heard(self) -> list[tuple[str, str]]:
        """Return channel and text of each message since the last call."""
        ...


class Real:
    """A real server."""

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


class Model:
    """The model of a server."""

    def __init__(self) -> None:
        self._listeners: Counter[str] = Counter()
        self._heard: list[tuple[str, str]] = []
        self._model = RedisModel(
            now=time.time,
            on_publish=self._publish,
            listeners=lambda channel: self._listeners[channel.decode()],
        )

    def _publish(self, channel: bytes, payload: bytes) -> int:
        if self._listeners[channel.decode()]:
            self._heard.append((channel.decode(), payload.decode()))
        return self._listeners[channel.decode()]

    def execute(self, *words: Any) -> Any:
        """Run a command."""
        return self._model.execute(*words)

    def listen(self, *channels: str) -> None:
        """Listen to *channels*."""
        self._listeners.update(channels)

    def heard(self) -> list[tuple[str, str]]:
        """Return what came."""
        heard, self._heard = self._heard, []
        return heard

    def close(self) -> None:
        """Do nothing."""


def real_or_model(request: pytest.FixtureRequest) -> Real | Model:
    """Return what a fixture with the parameters "server" and "model" asks for."""
    if request.param == "server":
        return Real(request.getfixturevalue("redis_client"))
    return Model()
