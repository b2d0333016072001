"""Whatever the network does to a request or reply, server and client agree afterwards."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.faults import command, delay_reply

from interlock import ServerUnavailableError
from interlock._core.scripts import locks as scripts

if TYPE_CHECKING:
    from tests.objects.awaited import Owner, Stage
    from tests.support.proxy import FaultProxy

ACQUIRE = scripts.ACQUIRE.sha
RELEASE = scripts.RELEASE["PUBLISH"].sha


async def _warm(stage: Stage, **options: Any) -> tuple[Any, Owner]:
    """Return a lock whose scripts the server knows and whose connection is open, and its owner."""
    lock, owner = stage.client(command_timeout=0.4, **options).lock("name"), stage.owner()
    for step in (lock.acquire, lock.acquire, lock.release, lock.release):
        await owner.do(step)
    return lock, owner


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "leased_semaphore"])
async def test_a_lease_that_is_too_short_is_told(
    stage: Stage, proxy: FaultProxy, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A lease that is over before the answer comes is told once, with what to do about it."""
    client, owner = stage.client(command_timeout=5), stage.owner()
    if kind == "leased_semaphore":
        semaphore = client.leased_semaphore("name", 1)
        await owner.do(semaphore.permits)
        act: Any = functools.partial(semaphore.try_acquire, timeout=1, lease=0.2)
    else:
        await owner.do(getattr(client, kind)("name").locked)
        act = functools.partial(getattr(client, kind)("name", lease=0.2).acquire, timeout=1)
    proxy.on_request(command("EVALSHA"), delay_reply(0.3))
    for _ in range(2):
        with contextlib.suppress(ServerUnavailableError):
            assert not await owner.do(act)
    (told,) = [each for each in caplog.records if each.levelname == "WARNING"]
    words = kind.replace("_", " ")
    assert f"an acquire of {words} 'name' came after its lease of 0.2 s" in told.getMessage()
    assert "must be longer than the way to the server and back" in told.getMessage()


async def test_an_unknown_script_is_told_once(stage: Stage, proxy: FaultProxy) -> None:
    """A server that forgot a script is sent its text once for each command, which runs once."""
    lock, owner = await _warm(stage)
    for script, step, depth in (
        (scripts.ACQUIRE, lock.acquire, 1),
        (scripts.ACQUIRE, lock.acquire, 2),
        (scripts.RELEASE["PUBLISH"], lock.release, 1),
        (scripts.QUERY, lock.locked, 1),
        (scripts.RELEASE["PUBLISH"], lock.release, 0),
    ):
        stage.redis.script_flush()
        proxy.clear_record()
        await owner.do(step)
        assert [(request.args[0], request.args[1]) for request in proxy.record] == [
            (b"EVALSHA", script.sha.encode()),
            (b"EVAL", script.text.encode()),
        ]
        assert stage.redis.hvals("name") == ([str(depth).encode()] if depth else [])
