"""A stage for cases that are coroutines: the two faces, and owners that act in turn.

An owner of the sync face is a thread of its own, one of the asyncio face a task of its own in the
loop of the test. `Owner.do` makes one call as that owner, and returns what came of it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, Self

import pytest
import redis
from tests.objects.kinds import Kind, named
from tests.objects.worlds import Actor, TaskActor, ThreadActor
from tests.support.cards import own_keys
from tests.support.patience import given
from tests.support.renewal import grown, renews_soon

import interlock
import interlock.asyncio

KINDS = [
    *map(named, ("lock", "lock-once", "fair", "fenced", "spin", "write", "group", "multi", "red"))
]
"""Lock-likes that one owner at a time holds."""
OF_ONE_KEY = [kind for kind in (*KINDS, named("read")) if kind.servers == 1 and kind.reentrant]
"""What one server keeps, and its owner may take again."""


class Owner:
    """Somebody who holds locks: a thread or a task of its own."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    async def do(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await asyncio.wrap_future(self._actor.start(call, *args, **kwargs))

    async def end(self) -> None:
        await asyncio.to_thread(self._actor.end)


class Face:
    """One of the two faces of the library."""

    def __init__(self, name: str) -> None:
        self.is_async = name == "asyncio"
        self.module: Any = interlock.asyncio if self.is_async else interlock

    def owner(self) -> Owner:
        return Owner(TaskActor(asyncio.get_running_loop()) if self.is_async else ThreadActor())

    def enter(self, lock: Any) -> Any:
        """Do what a ``with`` statement does first."""
        return lock.__aenter__() if self.is_async else lock.__enter__()

    def leave(self, lock: Any, error: BaseException | None = None) -> Any:
        """Do what a ``with`` statement does at last."""
        leave = lock.__aexit__ if self.is_async else lock.__exit__
        return leave(None if error is None else type(error), error, None)

    async def call(self, call: Callable[[], Any]) -> Any:
        """Make one call where the test runs.

        On the sync face that is the thread of the event loop, which may not wait for a server.
        So an owner should make such a call.
        """
        result = call()
        return await result if inspect.isawaitable(result) else result


class Stage:
    """A face, a kind of lock and a server; what is made here is taken down at the end."""

    def __init__(
        self, face: Face, kind: Kind, url: str, redis_client: redis.Redis, **defaults: Any
    ) -> None:
        self.face = face
        self.kind = kind
        self.url = url
        self.redis = redis_client
        self._defaults = defaults
        self._clients: list[Any] = []
        self._owners: list[Owner] = []

    def client(
        self, url: str | None = None, *, renewed: Literal["soon"] | None = None, **options: Any
    ) -> Any:
        """Return a new client, which may renew *soon*: see `renews_soon`."""
        client = self.face.module.connect(url or self.url, **{**self._defaults, **options})
        if renewed:
            renews_soon(client)
        self._clients.append(client)
        return client

    def owner(self) -> Owner:
        owner = self.face.owner()
        self._owners.append(owner)
        return owner

    def lock(self, client: Any, name: str = "name", **options: Any) -> Any:
        return self.kind.make(client, name, **options)

    def left_behind(self) -> set[str]:
        """Return the keys that should not be there while all is free: not counters of tokens."""
        return {key for key in own_keys(self.redis) if "token" not in key}

    async def waits(self, count: int = 1) -> None:
        """Wait until *count* owners queue in the clients made here.

        A spin lock has no queue: its owner only asks again.
        """
        if not self.kind.name.startswith("spin"):
            await queued(*self._clients, count=count)

    async def close(self, client: Any) -> None:
        await self.face.call(client.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    async def end(self) -> None:
        """Close every client, and end every owner and what they ran in."""
        errors: list[Exception] = []
        # Closing a client ends its waits. A thread that still waited would keep a failed test from
        # ending.
        for client in self._clients:
            try:
                await self.close(client)
            except Exception as error:
                errors.append(error)
        for owner in self._owners:
            await owner.end()
        if errors:
            raise ExceptionGroup("clients that could not be closed", errors)


def stage_of(kind: Kind) -> Any:
    """Return a fixture: *kind* on each face in turn, on a server that knows all scripts."""

    @pytest.fixture
    async def stage(
        face: Face, loaded: redis.Redis, redis_url: str, patient: None
    ) -> AsyncIterator[Stage]:
        async with Stage(face, kind, redis_url, loaded) as set_up:
            yield set_up

    return stage


async def until(condition: Callable[[], Any], timeout: float, what: str) -> None:
    """Ask *condition*, which may be awaitable, until it holds, without blocking the event loop."""
    deadline = asyncio.get_running_loop().time() + given(timeout)
    while True:
        holds = condition()
        if inspect.isawaitable(holds):
            holds = await holds
        if holds:
            return
        if asyncio.get_running_loop().time() > deadline:
            raise TimeoutError(f"waited {given(timeout)} s in vain until {what}")
        await asyncio.sleep(0.01)  # between two questions: others need the processor


def waiters(*clients: Any) -> int:
    return sum(len(line.waiters) for line in _lines(*clients))


def _lines(*clients: Any) -> list[Any]:
    queues = [each._driver.session.queues for each in clients]
    lines = [line for each in queues for line in [*each.lines.values()]]
    # Each waiter for a fair lock stands in a line of its own.
    lines += [hold.place.line for each in queues for hold in [*each.places.values()]]
    return [*dict.fromkeys(lines)]


def _waits(line: Any) -> bool:
    """Return whether each waiter in *line* was refused, or never asks itself, and waits for news."""
    counts = len(line.channels) == 1  # without a queue on the server
    return line.ready and all(
        hold.place is not None
        and hold.place.told is None
        and (
            hold.place.sent >= line.heard_at
            or line.deaf
            or not hold.sent_at
            or (counts and hold.place.sent)
        )
        for hold in [*line.waiters]
    )


def resting(*clients: Any, count: int = 1) -> Callable[[], bool]:
    """Return a question: do *count* threads and tasks queue in *clients*, and rest?

    They rest when every subscription is confirmed, and who is in front has looked after that. The
    answer is yes only at the second time: a thread may be between these two.
    """
    times = 0

    def ask() -> bool:
        nonlocal times
        times = times + 1 if waiters(*clients) >= count and not any(map(_moves, clients)) else 0
        return times > 1

    return ask


def _moves(client: Any) -> bool:
    """Return whether a waiter of *client* is about to ask the server, or asks it."""
    return not all(map(_waits, _lines(client)))


async def queued(*clients: Any, count: int = 1) -> None:
    """Wait until *count* threads and tasks queue in *clients*, and rest."""
    await until(resting(*clients, count=count), 10, f"{count} wait")


def take_turn(lock: Any, timeout: float = 30) -> bool:
    """Acquire and release *lock*. A thread of a pool that ended with its hold would be told."""
    if not lock.acquire(timeout=timeout):
        return False
    lock.release()
    return True


def grows(server: redis.Redis, key: str) -> Callable[[], bool]:
    """Return a question: has what is left of *key*'s lease grown since it was asked last?"""
    left = server.pttl(key)

    def ask() -> bool:
        nonlocal left
        before, left = left, server.pttl(key)
        return left > before

    return ask


async def renewed(*holds: Any, timeout: float = 20.0) -> None:
    """Wait until each of *holds* was renewed from now on: only then what is left of it grows."""
    were = [grown(hold) for hold in holds]
    done = [False] * len(holds)

    def all_have() -> bool:
        for number, was in enumerate(were):
            done[number] |= was()
        return all(done)

    try:
        await until(all_have, timeout, "all are renewed")
    except TimeoutError as error:
        ended = [number for number, hold in enumerate(holds) if not hold.valid]
        left_over = [number for number, each in enumerate(done) if not each]
        raise TimeoutError(f"{error}: not {left_over}; not valid any more: {ended}") from None
