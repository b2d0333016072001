"""A tenant: a user that may touch only what the prefix of its clients covers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import interlock
from tests.support.doings import DOINGS, two_clients

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock import Client
    from tests.support.servers import RedisServer

PREFIX = "acme:"
RIGHTS = "+@all ~acme:* ~*{acme:* &*{acme:*"
"""The rights of a tenant. Doctor prints them."""
LOGIN = ("acme", "secret")


def admit(nodes: Iterable[RedisServer]) -> None:
    """Let the tenant log in to each of *nodes*, which know no script and record no refusal yet."""
    user, password = LOGIN
    for node in nodes:
        node.execute("ACL", "SETUSER", user, "reset", "resetchannels", "on", f">{password}")
        node.execute("ACL", "SETUSER", user, *RIGHTS.split())
        node.execute("ACL", "LOG", "RESET")


def refusals(nodes: Iterable[RedisServer]) -> list[dict[str, Any]]:
    logs: list[Any] = [node.execute("ACL", "LOG") for node in nodes]
    return [
        {name.decode(): value for name, value in zip(entry[::2], entry[1::2], strict=True)}
        for log in logs
        for entry in log
    ]


def _limited(client: Client, other: Client) -> None:
    @client.limited("locks:{kind}", 2)
    def size(kind: str) -> int:
        return len(kind)

    assert size("other") == 5
    refused = other.limited("locks:limited", 1, timeout=0.5)
    with (
        client.limited("locks:limited", 1),
        pytest.raises(interlock.AcquireTimeoutError) as caught,
        refused,
    ):
        pass
    assert PREFIX not in str(caught.value)


def _red_lock(client: Client, other: Client) -> None:
    locks = [client.lock(f"locks:red {number}") for number in range(3)]
    with pytest.warns(UserWarning, match="3 members on 1 server"), client.red_lock(*locks):
        assert not other.lock("locks:red 1").acquire(timeout=0.1)


def _given_away(client: Client, other: Client) -> None:
    lock = client.fenced_lock("locks:given")
    with lock as hold:
        ticket = hold.hand_over(lease=60)
    ticket.announce(60, "a test", who="me@here")
    ticket.extend(90)
    with other.adopt(str(ticket)) as adopted:
        assert adopted.name == "locks:given"
        assert PREFIX not in str(ticket)
    assert client.single("locks:single", min_hold=0.1)(lambda: 1)() == 1


def do_everything(url: str) -> None:
    """Do all that there is to do with objects, by clients of *url* that all have the prefix."""
    made = {**DOINGS, "limited": _limited, "tickets": _given_away}

    def do(kind: str) -> None:
        with two_clients(url, prefix=PREFIX) as (client, other):
            made[kind](client, other)

    with two_clients(url, prefix=PREFIX) as (client, other):
        _red_lock(client, other)  # alone, because it warns
    with ThreadPoolExecutor(len(made)) as threads:
        for done in [threads.submit(do, kind) for kind in made]:
            done.result()
