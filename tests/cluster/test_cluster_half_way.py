"""Scripts that a real cluster stops in the middle, because their slot is just moving.

A script that has deleted a key may not touch it again: the source of the slot says that the key is
not its own. It has no rollback. The call is sent again, and finds nothing to do.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.cluster.conftest import emptied
from tests.cluster.seen import route
from tests.needs import IN_OTHER_WORDS
from tests.objects.awaited import until

from interlock import ServerUnavailableError
from interlock._links import connection, pipeline, replies

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.objects.awaited import Stage
    from tests.support.servers import ClusterServers


@pytest.fixture(params=IN_OTHER_WORDS)
def cluster(
    request: pytest.FixtureRequest, cluster_of_version: Callable[[str], ClusterServers]
) -> ClusterServers:
    """Give a shared cluster of each version whose words differ in turn, whose data is gone."""
    return emptied(cluster_of_version(request.param))


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the errors of scripts that were stopped half-way, as clients meet them."""
    met = list[str]()

    def refusal(text: str, *args: Any, **options: Any) -> Any:
        if "non local key" in text.lower():
            met.append(text)
        return replies.refusal(text, *args, **options)

    for module in (connection, pipeline):
        monkeypatch.setattr(module, "refusal", refusal)
    return met


@pytest.mark.parametrize("close", [False, True], ids=["single", "batch"])
async def test_a_release_that_was_stopped_is_no_loss(
    plain: Stage,
    cluster: ClusterServers,
    stopped: list[str],
    caplog: pytest.LogCaptureFixture,
    *,
    close: bool,
) -> None:
    """The waiter gets the lock, and nobody is told of a loss; a release raises nothing.

    A client that closes goes on while the slot moves, and may say in the end that it was moving.
    """
    caplog.set_level(logging.INFO)
    client, other = plain.client(), plain.client()
    ours, theirs = client.fair_lock("half"), other.fair_lock("half")
    holder, waiter = plain.owner(), plain.owner()
    assert await holder.do(ours.acquire)
    waiting = asyncio.create_task(waiter.do(theirs.acquire, timeout=60))
    await plain.waits()
    with cluster.migrate_slot(*route(cluster, "half")):
        ended = asyncio.create_task(holder.do(client.close if close else ours.release))
        await until(lambda: stopped, 20, "the server stopped the script")
    [outcome] = await asyncio.gather(ended, return_exceptions=True)
    if outcome is not None:
        assert close
        assert isinstance(outcome, ServerUnavailableError)
        assert outcome.code == "TRYAGAIN"
    assert await asyncio.wait_for(waiting, 60)
    assert [line for line in caplog.messages if "force-released" in line or "lost" in line] == []
    await waiter.do(theirs.release)
