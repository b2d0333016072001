"""The rights that docs/reference/acl.md names for each object are enough to use it.

They are all that its scripts call, and no more.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import renewed, until
from tests.support.cards import FOR_OPERATORS
from tests.support.scripts import SENT, TEXTS

from interlock import BrokenBarrierError, LatchDeletedError
from interlock._core.scripts.source import around
from interlock.check.rights import FOR_QUEUE, OPTIONAL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.lock.lock_like import Stage
    from tests.support.servers import RedisServer

NAME = "locks:a"
DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "acl.md"
RIGHTS = {
    name: words.split()
    for name, words in re.findall(r"^user (\S+) (.*)$", DOCUMENT.read_text(), re.MULTILINE)
}
FOR_CARDS = {"app-with-cards", "operator"}
"""Lines beyond the objects: `tests/operations/test_cards.py` uses their rights."""
PLAIN = (
    "lock_acquire",
    "lock_release",
    "lock_pass_locally",
    "lock_renew",
    "lock_force_release",
    "lock_query",
    "lock_set_lease",
    "lock_give",
    "locks_",
)
SCRIPTS = {
    "app": PLAIN,
    "fair": ("fair_lock_", "lock_renew", "lock_query"),
    "fenced": ("fenced_lock_", *PLAIN[1:]),
    "spin": PLAIN,
    "read-write": ("read_", "write_", "lock_renew"),
    "group": ("group_lock_",),
    "semaphore": ("semaphore_",),
    "leased-semaphore": ("leased_semaphore_",),
    "latch": ("latch_", "semaphore_expire"),
    "event": ("event_",),
    "barrier": ("barrier_", "waiting_renew"),
    "condition": ("condition_", "waiting_renew", *PLAIN),
    "election": (
        *("election_", "fenced_lock_acquire", "lock_renew", "lock_query"),
        "lock_force_release",
    ),
}
"""What the names of an object's scripts begin with."""
HEARING = {"subscribe", "unsubscribe", "ping"}


def test_every_script_is_of_some_object() -> None:
    """No script is left out, and no object without a line."""
    stems = TEXTS.keys() - FOR_OPERATORS
    known = {stem for stem in stems for part in SCRIPTS.values() if stem.startswith(part)}
    assert known == stems
    assert RIGHTS.keys() == SCRIPTS.keys() | FOR_CARDS


@pytest.mark.parametrize("thing", SCRIPTS)
def test_commands_are_those_of_the_scripts(thing: str) -> None:
    """A line permits what the object's scripts call and what hearing takes, no command more."""
    queued = thing in ("app", "fenced", "condition", "read-write", "semaphore", "leased-semaphore")
    called: set[str] = set()
    silent = thing == "spin"
    for stem, texts in SENT.items():
        if stem.startswith(SCRIPTS[thing]) and stem not in FOR_OPERATORS:
            text = (
                texts["" if silent else "PUBLISH"]
                .replace(around("clock")[0], "redis.call('time')")
                .lower()
            )
            calls = set(re.findall(r"redis\.p?call\('([a-z]+)'", text))
            called |= calls if queued else calls - FOR_QUEUE.get(stem, frozenset())
    called -= OPTIONAL
    expected = called | {"evalsha", "eval"} | (set() if silent else HEARING)
    if queued:
        expected.add("pubsub|numsub")
    assert {word[1:] for word in RIGHTS[thing] if word[0] == "+"} == expected


async def _lock(stage: Stage, clients: list[Any], make: Callable[[Any], Any]) -> None:
    a, b = stage.owner(), stage.owner()
    mine, theirs = map(make, clients)
    assert await a.do(mine.acquire)
    assert await a.do(mine.acquire, timeout=0)
    waiting = asyncio.create_task(b.do(theirs.acquire, timeout=10))
    await renewed(await a.do(lambda: mine.hold))
    assert await a.do(mine.hold_count) == 2
    for _ in range(2):
        await a.do(mine.release)
    assert await waiting
    assert not await a.do(mine.acquire, timeout=0.2)
    await b.do(theirs.extend, 5)
    assert await a.do(mine.locked)
    assert await a.do(mine.force_release)


async def _fair(stage: Stage, clients: list[Any]) -> None:
    await _lock(stage, clients, lambda client: client.fair_lock(NAME))


async def _fenced(stage: Stage, clients: list[Any]) -> None:
    await _lock(stage, clients, lambda client: client.fenced_lock(NAME))


async def _spin(stage: Stage, clients: list[Any]) -> None:
    await _lock(stage, clients, lambda client: client.spin_lock(NAME))


async def _group(stage: Stage, clients: list[Any]) -> None:
    await _lock(stage, clients, lambda client: client.group_lock(NAME, ["x", "y"]))


async def _read_write(stage: Stage, clients: list[Any]) -> None:
    await _lock(stage, clients, lambda client: client.read_write_lock(NAME).write)
    owner, both = stage.owner(), [client.read_write_lock(NAME) for client in clients]
    for _ in range(2):
        await owner.do(both[0].read.acquire)
    await stage.owner().do(both[1].read.acquire)
    await renewed(await owner.do(lambda: both[0].read.hold))
    for _ in range(2):
        await owner.do(both[0].read.release)
    assert await owner.do(both[0].read.locked)
    assert await owner.do(both[0].read.force_release)
    await owner.do(both[0].write.acquire)
    await owner.do(both[0].read.acquire)
    await owner.do(both[0].write.release)
    await owner.do(both[0].read.release)


async def _semaphore(stage: Stage, clients: list[Any]) -> None:
    a, b = stage.owner(), stage.owner()
    mine, theirs = [client.semaphore(NAME) for client in clients]
    assert await a.do(mine.try_set_permits, 1)
    assert await a.do(mine.acquire)
    waiting = asyncio.create_task(b.do(theirs.acquire, timeout=10))
    await stage.waits()
    await a.do(mine.release)
    assert await waiting
    await a.do(mine.add_permits, 2)
    assert await a.do(mine.available_permits) == 2
    assert await a.do(mine.release_if_exists)
    assert await a.do(mine.drain_permits) == 3
    assert not await a.do(mine.acquire, timeout=0.2)


async def _leased(stage: Stage, clients: list[Any]) -> None:
    a, b = stage.owner(), stage.owner()
    mine, theirs = [client.leased_semaphore(NAME) for client in clients]
    assert await a.do(mine.try_set_permits, 1)
    permit = await a.do(mine.acquire)
    waiting = asyncio.create_task(b.do(theirs.acquire, timeout=10))
    await renewed(permit)
    await a.do(mine.update_lease, permit, 5)
    await a.do(mine.release, permit)
    assert await waiting
    await a.do(mine.add_permits, 1)
    await a.do(mine.set_permits, 3)
    assert await a.do(mine.permits) == 3
    await a.do(mine.acquire, lease=0.2)

    async def one_has_ended() -> bool:
        return await a.do(mine.acquired_permits) == 1

    await until(one_has_ended, 10, "the permit's lease has ended")


async def _latch(stage: Stage, clients: list[Any]) -> None:
    a, b = stage.owner(), stage.owner()
    mine, theirs = [client.count_down_latch(NAME) for client in clients]
    for end in (mine.count_down, mine.delete):
        assert await a.do(mine.try_set_count, 1)
        waiting = asyncio.create_task(b.do(theirs.wait, timeout=10))
        await stage.waits()
        assert await a.do(mine.count) == 1
        await a.do(end)
        if end == mine.delete:
            with pytest.raises(LatchDeletedError):
                await waiting
        else:
            assert await waiting


async def _event(stage: Stage, clients: list[Any]) -> None:
    a, b = stage.owner(), stage.owner()
    mine, theirs = [client.event(NAME) for client in clients]
    waiting = asyncio.create_task(b.do(theirs.wait, timeout=10))
    await stage.waits()
    await a.do(mine.set)
    assert await waiting
    await a.do(mine.clear)
    assert not await b.do(theirs.is_set)


async def _election(stage: Stage, clients: list[Any]) -> None:
    a, b = stage.owner(), stage.owner()
    mine, theirs = [client.election(NAME) for client in clients]
    assert await a.do(mine.acquire)
    waiting = asyncio.create_task(b.do(theirs.acquire, timeout=10))
    await renewed(await a.do(lambda: mine.hold))
    assert (await a.do(theirs.leader)).token == 1
    await a.do(mine.release)
    assert await waiting
    assert await a.do(mine.force_release)


async def _barrier(stage: Stage, clients: list[Any]) -> None:
    a, b = stage.owner(), stage.owner()
    mine, theirs = [client.barrier(NAME, 2) for client in clients]
    waiting = asyncio.create_task(b.do(theirs.wait, timeout=10))
    await asyncio.sleep(1)  # a renewal
    assert await a.do(mine.wait, timeout=5) == 1
    assert await waiting == 0
    await a.do(mine.abort)
    await a.do(mine.reset)
    with pytest.raises(BrokenBarrierError):
        await a.do(mine.wait, timeout=0.1)
    assert await a.do(lambda: mine.broken)


async def _condition(stage: Stage, clients: list[Any]) -> None:
    a, b = stage.owner(), stage.owner()
    mine, theirs = [client.condition(NAME) for client in clients]
    await b.do(theirs.acquire)
    waiting = asyncio.create_task(b.do(theirs.wait, 20))
    await asyncio.sleep(1)  # a renewal
    await a.do(mine.acquire)
    await a.do(mine.notify)
    await a.do(mine.release)
    assert await waiting
    assert not await b.do(theirs.wait, 0.1)
    await b.do(theirs.notify_all)
    await b.do(theirs.release)


CONVERSATIONS: dict[str, Callable[[Stage, list[Any]], Awaitable[None]]] = {
    "fair": _fair,
    "fenced": _fenced,
    "spin": _spin,
    "read-write": _read_write,
    "group": _group,
    "semaphore": _semaphore,
    "leased-semaphore": _leased,
    "latch": _latch,
    "event": _event,
    "barrier": _barrier,
    "condition": _condition,
    "election": _election,
}


@pytest.mark.parametrize("face", ["sync"], indirect=True)
@pytest.mark.parametrize("thing", CONVERSATIONS)
async def test_the_line_is_enough(stage: Stage, any_server: RedisServer, thing: str) -> None:
    """The rights of its line alone are enough for all calls of an object, on every version."""
    any_server.execute("ACL", "SETUSER", thing, "reset", *RIGHTS[thing])
    any_server.execute("SCRIPT", "FLUSH")
    any_server.execute("ACL", "LOG", "RESET")
    url = any_server.url(0, thing, "secret")
    clients = [stage.client(url, renewed="soon", poll_cap=30, card=False) for _ in range(2)]
    await CONVERSATIONS[thing](stage, clients)
    assert any_server.execute("ACL", "LOG") == []
