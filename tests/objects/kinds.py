"""The classes under test: each lock-like as a function from a client to an object.

A kind says only how it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Make = Callable[..., Any]


@dataclass(frozen=True)
class Kind:
    """One lock-like, or in `awaited` another object.

    Attributes:
        name: for the test's id.
        make: from a client, or clients of `servers` servers, a name and options to the object.
        reentrant: whether its owner may take it again.
        shared: whether several owners may hold it at a time.
        in_turn: whether its waiters have their turns in order of arrival.
        fenced: whether its holds have tokens.
        waits: whether waiters listen to a channel.
        polls: whether a waiter that listens asks again and again besides.
        servers: how many independent servers it takes.
        tickets: whether a hold can be handed over to another process.
        options: those of its clients.
    """

    name: str
    make: Make
    reentrant: bool = True
    shared: bool = False
    in_turn: bool = False
    fenced: bool = False
    waits: bool = True
    polls: bool = False
    servers: int = 1
    tickets: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def _first(clients: Any) -> Any:
    return clients[0] if isinstance(clients, list | tuple) else clients


def _of(factory: str, **fixed: Any) -> Make:
    def make(clients: Any, name: str, **options: Any) -> Any:
        return getattr(_first(clients), factory)(name, **fixed, **options)

    return make


def _half(side: str) -> Make:
    def make(clients: Any, name: str, **options: Any) -> Any:
        return getattr(_first(clients).read_write_lock(name, **options), side)

    return make


def _composite(factory: str) -> Make:
    def make(clients: Sequence[Any], name: str, **options: Any) -> Any:
        return getattr(clients[0], factory)(*(each.lock(name) for each in clients), **options)

    return make


def _together(clients: Sequence[Any], name: str, **options: Any) -> Any:
    members = [clients[0].lock(name), clients[0].lock(name + " too")]
    return clients[0].multi_lock(*members, **options)


def _group(clients: Any, name: str, **options: Any) -> Any:
    return _first(clients).group_lock(name, ["one", "two"], **options)


KINDS = [
    Kind("lock", _of("lock"), in_turn=True, tickets=True),
    Kind("lock-once", _of("lock", reentrant=False), reentrant=False, in_turn=True),
    Kind("fair", _of("fair_lock"), in_turn=True, tickets=True),
    Kind("fenced", _of("fenced_lock"), in_turn=True, fenced=True, tickets=True),
    Kind("spin", _of("spin_lock"), waits=False, tickets=True),
    Kind("lock-deaf", _of("lock"), waits=False, options={"pubsub": "off"}),
    Kind("write", _half("write"), in_turn=True),
    Kind("read", _half("read"), shared=True),
    Kind("group", _group),
    Kind("multi", _composite("multi_lock"), servers=2),
    Kind("together", _together),
    Kind("red", _composite("red_lock"), polls=True, servers=3),
]
EXCLUSIVE = [kind for kind in KINDS if not kind.shared]


def named(name: str) -> Kind:
    return next(kind for kind in KINDS if kind.name == name)
