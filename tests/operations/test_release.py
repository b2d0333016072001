"""Breaking one hold: exactly the one that was named, and its holder is told why."""

from __future__ import annotations

import getpass
import json
import os
import signal
import socket
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.cli.cli_process import ENVIRON
from tests.objects.awaited import OF_ONE_KEY
from tests.operations.on_call import holder_of
from tests.support.renewal import renews_soon
from tests.support.servers import wait_until

from interlock import HoldLostError, connect
from interlock.asyncio import connect as asyncio_connect
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    import redis
    from tests.objects.kinds import Kind

    from interlock import Client, Lock

REASON = "stuck since 10:40"


@pytest.mark.parametrize("kind", OF_ONE_KEY, ids=lambda kind: kind.name)
def test_the_named_hold_is_broken_and_its_holder_told(kind: Kind, redis_url: str) -> None:
    """Each kind of hold is broken by its holder id, and the holder reads the reason."""
    with renews_soon(connect(redis_url)) as holding, connect(redis_url) as operator:
        lock = kind.make(holding, "orders")
        lock.acquire()
        lock.acquire()
        hold = lock.hold
        assert hold is not None

        assert not operator.force_release("orders", holder=f"{holding.client_id}:999999")
        assert operator.force_release("orders", holder=holder_of(operator), reason=REASON)
        assert operator.describe("orders") is None
        assert hold.lost.wait(10)
        wait_until(lambda: REASON in _said(lock), 10, "the holder reads the note")
        with kind.make(operator, "orders"):
            pass


@pytest.mark.parametrize("step", ["release", "extend"])
def test_a_holder_that_comes_before_its_renewal_hears_the_reason(
    step: str, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A release or extension that finds the lock gone raises an error with the reason."""
    with connect(redis_url) as holding, connect(redis_url) as operator:
        lock = holding.lock("orders")
        lock.acquire()
        assert operator.force_release("orders", holder=holder_of(operator), reason=REASON)
        with pytest.raises(HoldLostError, match=f"force-released: {REASON}") as told:
            _ = lock.release() if step == "release" else lock.extend(60)
        assert told.value.detail == REASON
    wait_until(
        lambda: any(f"(force-released: {REASON})" in each for each in caplog.messages),
        10,
        "the log tells it",
    )


def _said(lock: Lock) -> str:
    hold = lock.hold
    assert hold is not None
    with pytest.raises(HoldLostError) as told:
        hold.ensure()
    return f"{told.value} {told.value.detail}"


@pytest.mark.parametrize("kind", OF_ONE_KEY, ids=lambda kind: kind.name)
def test_a_new_hold_survives(kind: Kind, redis_url: str) -> None:
    """If another holder has the lock by now, breaking the former hold changes nothing."""
    with connect(redis_url) as first, connect(redis_url) as second:
        with kind.make(first, "orders"):
            former = holder_of(second)
        with kind.make(second, "orders") as hold:
            assert not second.force_release("orders", holder=former, reason=REASON)
            assert not kind.make(second, "orders").force_release(holder=former)
            assert holder_of(second).startswith(second.client_id)
            hold.ensure()


def _told(client: Client, name: str) -> bool:
    info = client.describe(name)
    return info is not None and info.holders[0].held_for is not None


def test_a_reason_explains_one_loss(redis_url: str, redis_client: redis.Redis) -> None:
    """The note of a broken hold is read once, and one that broke nothing is taken back."""
    with renews_soon(connect(redis_url)) as holding, connect(redis_url) as operator:
        lock = holding.lock("orders")
        lock.acquire()
        hold, holder = lock.hold, holder_of(operator)
        assert hold is not None
        with pytest.raises(ConfigError, match="2000 bytes, and this one has 2001"):
            operator.force_release("orders", holder=holder, reason="é" * 1000 + "x")
        longest = "é" * 1000
        assert operator.lock("orders").force_release(holder=holder, reason=longest)
        wait_until(lambda: hold.lost.is_set() and longest in _said(lock), 10, "it is told")
        assert not operator.lock("orders").force_release(holder=holder, reason=longest)
        assert redis_client.keys("interlock_forced*") == []


def test_one_reader_is_broken_and_the_others_read_on(redis_url: str) -> None:
    """Of several readers only the named one loses its hold."""
    with connect(redis_url) as one, connect(redis_url) as two:
        kept, broken = one.read_write_lock("orders").read, two.read_write_lock("orders").read
        with kept:
            broken.acquire()
            info = one.describe("orders")
            assert info is not None
            assert info.holder_count == 2
            [holder] = [
                each.holder for each in info.holders if each.holder.startswith(two.client_id)
            ]
            assert one.force_release("orders", holder=holder)
            assert holder_of(one).startswith(one.client_id)
            assert kept.owned()
            with pytest.raises(HoldLostError):
                broken.release()


def test_one_permit_is_broken(client: Client) -> None:
    """A permit of a leased semaphore is broken by its id, and goes back to the semaphore."""
    semaphore = client.leased_semaphore("slots")
    assert semaphore.try_set_permits(2)
    kept, broken = semaphore.acquire(), semaphore.acquire()
    assert client.force_release("slots", holder=broken.ids[0], reason=REASON)
    assert not client.force_release("slots", holder=broken.ids[0])
    assert semaphore.available_permits() == 1
    kept.release()
    with pytest.raises(HoldLostError):
        broken.release()


async def test_the_asyncio_face_breaks_holds(redis_url: str) -> None:
    """`force_release(holder=...)` awaits what the sync face does, and refuses what cannot be."""
    async with asyncio_connect(redis_url) as client:
        lock = client.lock("orders")
        await lock.acquire()
        hold, info = lock.hold, await client.describe("orders")
        assert hold is not None
        assert info is not None
        assert not await lock.force_release(holder="nobody:1", reason=REASON)
        assert await lock.force_release(holder=info.holders[0].holder, reason=REASON)
        assert hold.lost.is_set()
        with pytest.raises(ConfigError, match="a reason is for a holder"):
            await lock.force_release(reason=REASON)
        with pytest.raises(ConfigError, match="break the holds of its members"):
            await client.multi_lock(lock).force_release(holder="nobody:1")
        with pytest.raises(HoldLostError):
            await lock.release()


def test_the_commands_show_and_break(
    client: Client, command: Callable[..., CompletedProcess[str]]
) -> None:
    """`interlock why` tells the holder's id, and `interlock break` breaks just that hold."""
    lock = client.lock("orders")
    lock.acquire()
    wait_until(partial(_told, client, "orders"), 20, "a card tells of it")
    shown = json.loads(command("why", "orders", "--json").stdout)
    [holder] = [each["holder"] for each in shown["lock"]["holders"]]
    reason = ("--reason", REASON)

    dry = command("break", "orders", "--dry-run", *reason)
    assert dry.returncode == 0
    assert dry.stdout.startswith(f"would break the hold of {holder} on 'orders': ")
    assert f"pid {os.getpid()}" in dry.stdout
    assert lock.owned()
    other = command("break", "orders", "--holder", "nobody:1", *reason)
    assert (other.returncode, lock.owned()) == (1, True)
    assert f"held by {holder}" in other.stderr
    for dry_run in ((), ("--dry-run",)):
        refused = command("break", "orders", "--reason", "x" * 2001, *dry_run)
        assert (refused.returncode, refused.stdout, lock.owned()) == (64, "", True)
        assert "reason" in refused.stderr
    broken = command("break", "orders", "--holder", holder, *reason)
    logged = f"lock 'orders', held by {holder}, was released by force by {getpass.getuser()}: "
    assert broken.returncode == 0
    assert broken.stderr.count("\n") == 1
    assert broken.stderr.endswith(f"{logged}{REASON}\n")
    assert command("why", "orders").returncode == 1
    with pytest.raises(HoldLostError):
        lock.release()


def test_the_only_hold_is_broken_without_its_id(
    client: Client, command: Callable[..., CompletedProcess[str]]
) -> None:
    """Neither an id nor a reason is needed where one holder is there, and several are a choice."""
    assert client.lock("orders").acquire()
    broken = command("break", "orders")
    assert broken.returncode == 0
    assert "no reason was given" in broken.stderr
    again = command("break", "orders")
    told = "interlock: nobody holds 'orders' that can be broken\n"
    assert (again.returncode, again.stdout, again.stderr) == (1, "", told)

    permits = client.leased_semaphore("slots", permits=2)
    ids = {permits.acquire().holder, permits.acquire().holder}
    several = command("break", "slots")
    assert (several.returncode, several.stdout, permits.available_permits()) == (64, "", 0)
    assert all(str(each) in several.stderr for each in ids)
    assert command("break", "slots", "--holder", str(ids.pop())).returncode == 0
    assert permits.available_permits() == 1


def test_a_command_without_a_server_refuses(command: Callable[..., CompletedProcess[str]]) -> None:
    """Operators are never shown an embedded server because they forgot the URL."""
    for arguments in (("list",), ("why", "orders"), ("list", "--deadlocks")):
        done = command(*arguments, url="")
        assert (done.returncode, done.stdout) == (64, "")
        assert "no server is named" in done.stderr
        assert command(*arguments, "--", "orders", "true").returncode == 64


def test_ctrl_c_ends_a_command_without_a_traceback() -> None:
    """`interlock list` that is interrupted exits as shells expect, and prints nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = subprocess.Popen(
            [sys.executable, "-m", "interlock", "list"],
            env={**ENVIRON, "INTERLOCK_URL": f"redis://127.0.0.1:{silent.getsockname()[1]}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        silent.settimeout(60)
        with silent.accept()[0]:
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 130


def test_a_client_tells_what_it_holds(client: Client) -> None:
    """`client.holds()` returns the holds of all threads, and neither permits nor what is over."""
    assert client.leased_semaphore("slots").try_set_permits(1)
    with (
        client.lock("orders") as hold,
        client.fenced_lock("stock"),
        client.leased_semaphore("slots").acquire(),
    ):
        found = {each.name: each for each in client.holds()}
        assert found.keys() == {"orders", "stock"}
        assert found["orders"].holder == hold.holder
        assert found["orders"].valid
    assert client.holds() == []
