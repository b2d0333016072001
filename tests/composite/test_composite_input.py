"""What cannot be held together, and what had better not be."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

import interlock
import interlock.asyncio
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from tests.composite.table import Table


@pytest.mark.parametrize("made", ["MultiLock", "RedLock"])
async def test_what_cannot_be_held_together(table: Table, made: str) -> None:
    """Nothing, one lock twice, what is several locks itself, and an election are no members."""
    one, two, make = table.client(), table.client(), getattr(table.face.module, made)
    first = one.lock("name")
    for members, why in (
        ((), "needs members"),
        ((first, two.lock("name")), "'name' is a member twice"),
        ((first, two.fair_lock("name")), "'name' is a member twice"),
        ((first, table.multi(one, "a", "b")), "several locks itself"),
        ((first, one.election("b")), "no lock that others can be made of"),
    ):
        with pytest.raises(ConfigError, match=why):
            make(*members)


async def test_both_faces(table: Table) -> None:
    """Locks of sync and of asyncio clients cannot be held as one, whichever face is asked."""
    with interlock.connect(table.url) as sync:
        async with interlock.asyncio.connect(table.url) as tasks:
            for locks in ((sync.lock("a"), tasks.lock("b")), (tasks.lock("a"), sync.lock("b"))):
                for module in (interlock, interlock.asyncio):
                    with pytest.raises(ConfigError, match="sync and of asyncio"):
                        module.MultiLock(*locks)
            with pytest.raises(ConfigError, match="a member must be a lock"):
                interlock.MultiLock(sync.lock("a"), "b")  # type: ignore[arg-type]


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
