"""A release makes a waiter of another process the holder, which starts without asking."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import queued, until
from tests.support.faults import swallow_reply
from tests.support.servers import wait_until

import interlock
from interlock._core.model import holds
from interlock._core.queue import starting
from interlock._core.scripts import fenced_lock as fenced_scripts
from interlock._core.scripts import lock as scripts
from interlock._core.scripts import read_write_lock as read_write_scripts
from interlock._core.scripts import source
from interlock._core.scripts.script import Variants, released

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy

QUEUE = "interlock_queue:{name}"


def leave_to_nobody(server: redis.Redis) -> None:
    """Note that the lock was left to those who only look, for the next minute."""
    server.zadd(QUEUE, {":left": (server.time()[0] + 60) * 1000})


def is_script(args: Sequence[bytes]) -> bool:
    """Return whether a request runs a script."""
    return args[0].upper().startswith(b"EVAL")


def let_claims_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a claim last for four seconds: a busy machine hears of it in time."""
    monkeypatch.setattr(holds, "CLAIM", 4.0)
    monkeypatch.setattr(starting, "CLAIM", 4.0)
    monkeypatch.setitem(source.TIMES, "CLAIM", 4.0)
    for home, name in (
        (scripts, "lock_release"),
        (fenced_scripts, "fenced_lock_release"),
        (read_write_scripts, "write_lock_release"),
    ):
        monkeypatch.setattr(home, f"_{name.upper()}", Variants(name, released))


def lock_of(kind: str, client: Any) -> Any:
    """Return *client*'s lock of *kind*."""
    return (
        client.read_write_lock("name").write if kind == "write" else getattr(client, kind)("name")
    )


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "write"])
async def test_it_is_taken_without_an_answer(
    proxy: FaultProxy, plain: Stage, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waiter gets no answer any more, and starts all the same; the server has its lease."""
    let_claims_last(monkeypatch)
    client, a, b = plain.client(proxy.url(), poll_cap=30), plain.owner(), plain.owner()
    mine, theirs = (lock_of(kind, each) for each in (plain.client(), client))
    await a.do(mine.acquire)
    before = await a.do(lambda: mine.hold)
    leave_to_nobody(plain.redis)
    waiting = asyncio.create_task(b.do(theirs.acquire))
    await until(lambda: plain.redis.zcard(QUEUE) == 2, 10, "b waits")
    await queued(client)
    proxy.clear_record()
    proxy.on_request(is_script, swallow_reply)
    await a.do(mine.release)
    assert await asyncio.wait_for(waiting, 20)
    hold = await b.do(lambda: theirs.hold)
    assert hold.token == (before.token and before.token + 1)
    holder = hold.holder.encode()
    told = threading.Event()
    await b.do(hold.on_lost, told.set)
    assert plain.redis.hkeys("name")[-1] == holder
    await until(lambda: plain.redis.pttl("name") > 10_000, 5, "the lease is whole")
    sent = [each.args[-1] for each in proxy.record if is_script(each.args)]
    assert sent[0] == holder
    await until(told.is_set, 5, "without an answer the claim is all that it has")


async def test_its_first_command_confirms_it(
    proxy: FaultProxy, plain: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply to the command that it sends when it starts gives it the whole lease."""
    let_claims_last(monkeypatch)
    client, a, b = plain.client(proxy.url(), poll_cap=30), plain.owner(), plain.owner()
    mine, theirs = plain.client().lock("name"), client.lock("name")
    await a.do(mine.acquire)
    leave_to_nobody(plain.redis)
    waiting = asyncio.create_task(b.do(theirs.acquire))
    await until(lambda: plain.redis.zcard(QUEUE) == 2, 10, "b waits")
    await queued(client)
    sent, confirmed = list[bytes](), threading.Event()

    def is_later(args: Sequence[bytes]) -> bool:
        if is_script(args) and not confirmed.is_set():
            sent.append(args[0])
        return len(sent) > 1 and not confirmed.is_set()

    proxy.on_request(is_later, swallow_reply)
    await a.do(mine.release)
    assert await asyncio.wait_for(waiting, 20)
    hold = await b.do(lambda: theirs.hold)
    await until(lambda: hold.remaining > 2 * holds.CLAIM, 5, "it is more than a claim")
    confirmed.set()
    assert len(sent) == 1
    await b.do(theirs.release)


STALLS = """
client = interlock.connect(url, poll_cap=30)
lock = client.lock("name")
say("waits")
lock.acquire()
os.kill(os.getpid(), signal.SIGSTOP)
lock.release()
say("released")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there are no stopped processes")
def test_who_stalls_at_once_keeps_its_lease(redis_url: str, redis_client: redis.Redis) -> None:
    """A process that stands still from its first moment on has the lock for a whole lease."""
    with interlock.connect(redis_url) as client, Child(STALLS, redis_url) as child:
        lock = client.lock("name")
        lock.acquire()
        assert child.hear() == "waits"
        wait_until(lambda: redis_client.zcard(QUEUE) == 1, 10, "it waits")
        lock.release()
        wait_until(lambda: stands_still(child.pid), 10, "it stands still")
        held = redis_client.hkeys("name")
        wait_until(lambda: redis_client.pttl("name") < 29_000, 10, "its claim would be over")
        assert redis_client.hkeys("name") == held != []
        child.signal(signal.SIGCONT)
        assert child.hear() == "released"
        assert not redis_client.exists("name")


WAITS = """
client = interlock.connect(url, poll_cap=30)
lock = client.lock("name")
say("waits")
lock.acquire()
say("holds")
lock.release()
say("released")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there are no stopped processes")
def test_who_stood_still_does_not_believe_its_claim(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """Others have the lock once the claim of a frozen process is over; it hears of it, and asks."""
    with interlock.connect(redis_url) as client, Child(WAITS, redis_url) as child:
        lock = client.lock("name")
        lock.acquire()
        assert child.hear() == "waits"
        wait_until(lambda: redis_client.zcard(QUEUE) == 1, 10, "it waits")
        [its] = cast("list[bytes]", redis_client.zrange(QUEUE, 0, 0))
        leave_to_nobody(redis_client)
        child.signal(signal.SIGSTOP)
        wait_until(lambda: stands_still(child.pid), 10, "it stands still")
        lock.release()
        held, left = redis_client.hkeys("name"), redis_client.pttl("name")
        assert b":" in its  # it waits in the name of a holder
        assert held in ([its], [])
        assert left <= 250
        wait_until(lambda: not redis_client.exists("name"), 10, "its claim is over")
        assert lock.acquire()
        child.signal(signal.SIGCONT)
        wait_until(lambda: redis_client.zscore(QUEUE, its) is not None, 20, "it waits again")
        assert lock.locked()
        assert redis_client.hkeys("name") != [its]
        lock.release()
        assert child.hear() == "holds"
        assert child.hear() == "released"


def stands_still(pid: int) -> bool:
    """Return whether a process was stopped by a signal."""
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "T"
