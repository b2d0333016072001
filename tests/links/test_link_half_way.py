"""Scripts that a server stopped in the middle, or that a user has half of the rights for.

A stopped script may have released the lock. If it is sent again, it finds nothing: that is no
loss, and nobody is told that the hold was released by force.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.links.test_link_acl import NAME
from tests.objects.awaited import KINDS, Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.objects.awaited import Face
    from tests.support.servers import RedisServer

WITH_QUEUE = [kind for kind in KINDS if kind.name in ("lock", "fenced", "write", "semaphore")]


@pytest.fixture
async def on_any(
    request: pytest.FixtureRequest, face: Face, any_server: RedisServer, patient: None
) -> AsyncIterator[Stage]:
    """Give the kind that the test is about, on a server of each version, to an administrator."""
    any_server.execute("SCRIPT", "FLUSH")
    with any_server.client() as seen:
        set_up = Stage(face, request.param, any_server.url(), seen)
        yield set_up
        await set_up.end()


async def give_back(stage: Stage, client: Any, owner: Any, lock: Any, *, close: bool) -> None:
    """Release *lock* by a call of its own, or by closing its *client*, in one write with others."""
    if close:
        await stage.close(client)
    else:
        await owner.do(lock.release)


def said_lost(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log's lines about lost holds."""
    return [line for line in caplog.messages if "force-released" in line or "lost" in line]


@pytest.mark.parametrize("close", [False, True], ids=["single", "batch"])
@pytest.mark.parametrize("on_any", WITH_QUEUE, indirect=True, ids=lambda kind: kind.name)
async def test_a_user_without_rights_to_the_queue(
    on_any: Stage, caplog: pytest.LogCaptureFixture, *, close: bool
) -> None:
    """Without the queue's key, calls and batches do their work, and a release wakes all."""
    caplog.set_level(logging.INFO)
    rights = ["on", "nopass", "resetkeys", "~locks:*", "~{locks:*", "~redisson_*", "&*", "+@all"]
    on_any.redis.execute_command("ACL", "SETUSER", "queueless", "reset", *rights)
    port = on_any.redis.config_get("port")["port"]
    url = f"redis://queueless:x@127.0.0.1:{port}"
    client, other = on_any.client(url), on_any.client(url)
    ours, theirs = on_any.lock(client, NAME), on_any.lock(other, NAME)
    holder, waiter = on_any.owner(), on_any.owner()
    assert await holder.do(ours.acquire)
    waiting = asyncio.create_task(waiter.do(theirs.acquire, timeout=60))
    await on_any.waits()
    assert await holder.do(on_any.lock(client, f"{NAME}:2").acquire)
    await give_back(on_any, client, holder, ours, close=close)
    assert await asyncio.wait_for(waiting, 30)
    queues = [f"interlock_{each}queue:{{{NAME}}}" for each in ("", "rw_", "old_")]
    assert on_any.redis.exists(*queues) == 0
    assert said_lost(caplog) == []
