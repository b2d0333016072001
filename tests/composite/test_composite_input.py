"""What cannot be held together, and what had better not be."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import interlock
import interlock.asyncio
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.composite.table import Table
    from tests.support.servers import RedisServer

MADE = ["MultiLock", "RedLock"]


@pytest.mark.parametrize("made", MADE)
async def test_no_members(table: Table, made: str) -> None:
    """Nothing cannot be held."""
    with pytest.raises(ConfigError, match="needs members"):
        getattr(table.face.module, made)()


@pytest.mark.parametrize("made", MADE)
async def test_the_same_lock_twice(table: Table, made: str) -> None:
    """A lock cannot be a member twice, not even by another client or as another kind of lock."""
    one, two = table.client(), table.client()
    make = getattr(table.face.module, made)
    for twin in (one.lock("name"), two.lock("name"), two.fair_lock("name"), one.spin_lock("name")):
        with pytest.raises(ConfigError, match="'name' is a member twice"):
            make(one.lock("other"), twin, one.lock("name"))


@pytest.mark.parametrize("made", MADE)
async def test_both_faces(table: Table, made: str) -> None:
    """Locks of sync and of asyncio clients cannot be held as one, whichever face is asked."""
    with interlock.connect(table.url) as sync:
        async with interlock.asyncio.connect(table.url) as tasks:
            for locks in ((sync.lock("a"), tasks.lock("b")), (tasks.lock("a"), sync.lock("b"))):
                for module in (interlock, interlock.asyncio):
                    with pytest.raises(ConfigError, match="sync and of asyncio"):
                        getattr(module, made)(*locks)
            with pytest.raises(ConfigError, match="a member must be a lock"):
                interlock.MultiLock(sync.lock("a"), "b")  # type: ignore[arg-type]


async def test_nested(table: Table) -> None:
    """Locks that are several themselves cannot be members."""
    client = table.client()
    inner = table.multi(client, "a", "b")
    with pytest.raises(ConfigError, match="several locks itself"):
        client.multi_lock(inner, client.lock("c"))


@pytest.mark.parametrize("made", MADE)
async def test_an_election(table: Table, made: str) -> None:
    """Who leads is no part of what others hold."""
    client = table.client()
    with pytest.raises(ConfigError, match="no lock that others can be made of"):
        getattr(table.face.module, made)(client.lock("a"), client.election("b"))


@pytest.mark.parametrize(
    ("count", "why"),
    [
        (1, "survives the loss of 0: take an odd number"),
        (2, "survives the loss of 0, as one over 1 does"),
        (4, "survives the loss of 1, as one over 3 does"),
    ],
)
async def test_a_weak_red_lock(five: Table, count: int, why: str) -> None:
    """Fewer than three servers, or an even number, cause a warning at the user's line.

    The warning says why.
    """
    locks = [client.lock("name") for client in five.clients()[:count]]
    with pytest.warns(UserWarning, match=why) as caught:
        five.face.module.RedLock(*locks)
    with pytest.warns(UserWarning, match=why) as by_factory:
        five.client().red_lock(*locks)
    assert {warning.filename for warning in (*caught, *by_factory)} == {__file__}


async def test_several_members_on_one_server(table: Table) -> None:
    """A quorum of one server is warned of; a multi lock of one server is not."""
    client = table.client()
    with pytest.warns(UserWarning, match="3 members on 1 servers"):
        client.red_lock(*[client.lock(name) for name in "abc"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.multi_lock(*[client.lock(name) for name in "abc"])
        table.face.module.RedLock(*[other.lock("name") for other in table.clients()])


async def test_names(table: Table) -> None:
    """It is called what its members are called, each name once, and shows what is known of it."""
    client = table.client()
    multi, red = table.multi(client, "b", "a"), table.red(table.clients())
    assert (multi.name, red.name) == ("a + b", "name")
    assert repr(multi) == "<MultiLock 'a + b' not held here>"
    owner = table.owner()
    await owner.do(red.acquire)
    assert (await owner.do(repr, red)).startswith("<RedLock 'name' <Hold 'name' valid holder=")
    await owner.do(red.release)


def test_many_members_of_one_client(servers: Sequence[RedisServer]) -> None:
    """Twenty members of one client are taken and released without a thread for each."""
    with interlock.connect(servers[0].url()) as client:
        lock: Any = client.multi_lock(*[client.lock(f"n{number}") for number in range(20)])
        before = threading.active_count()
        for _ in range(3):
            with lock:
                assert len(servers[0].execute("KEYS", "*")) == 20  # type: ignore[arg-type]
        assert threading.active_count() <= before + 1
