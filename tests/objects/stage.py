"""What a case of the suite is played on: a world, a place, and a class under test."""

from __future__ import annotations

from typing import Any

from tests.objects.kinds import Kind
from tests.objects.places import Place
from tests.objects.worlds import Actor, World

NAME = "the name"


class Stage:
    """Makes clients, actors and objects, and takes them down at the end."""

    def __init__(self, world: World, place: Place, kind: Kind | None = None) -> None:
        self.world = world
        self.place = place
        self.kind = kind
        self._actors: list[Actor] = []
        self._clients: list[Any] = []
        self._host = world.actor()

    def actor(self) -> Actor:
        actor = self.world.actor()
        self._actors.append(actor)
        return actor

    def client(self, url: str | None = None, **options: Any) -> Any:
        """Return a new client, of the first service unless told otherwise."""
        if self.kind is not None:
            options = {**self.kind.options, **options}
        client = self._host.do(self.world.face.connect, url or self.place.urls[0], **options)
        self._clients.append(client)
        return client

    def lock(self, *clients: Any, name: str = NAME, **options: Any) -> Any:
        """Return an object of the kind under test, of these clients or of new ones."""
        assert self.kind is not None
        made = clients or self.clients()
        return self.kind.make(made, name, **options)

    def clients(self, **options: Any) -> list[Any]:
        """Return as many new clients as the kind takes, each of a service of its own."""
        assert self.kind is not None
        return [self.client(url, **options) for url in self.place.urls[: self.kind.servers]]

    def waits(self, name: str = NAME, *, clients: int = 1) -> None:
        """Wait until those who were told to acquire, of so many clients, rest in their queue."""
        assert self.kind is None or self.kind.waits
        polls = self.kind is not None and self.kind.polls
        self.place.rests(name, clients, polls=polls)

    def left(self) -> set[str]:
        """Return the keys that should not be there while all is free: not counters of tokens."""
        return {key for key in self.place.keys_left() if "token" not in key}

    def close(self, *clients: Any) -> None:
        for client in clients:
            self._host.do(client.close)

    def end(self) -> None:
        errors: list[Exception] = []
        for client in self._clients:
            try:
                self.close(client)
            except Exception as error:
                errors.append(error)
        for actor in (*self._actors, self._host):
            actor.end()
        self.world.end()
        if errors:
            raise ExceptionGroup("clients that could not be closed", errors)
