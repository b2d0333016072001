"""Mistakes of the first hour are told at once, and the body's own exception is never replaced."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.servers import RedisServer

import interlock
import interlock.asyncio
from interlock import MisuseWarning


def test_the_sync_face_in_a_loop_warns_after_a_first_use_elsewhere(redis_url: str) -> None:
    """A client that was used before the loop began warns of its first call in the loop."""
    with interlock.connect(redis_url) as client:
        client.lock("name").locked()

        async def use() -> None:
            with client.lock("name"):
                pass

        with pytest.warns(MisuseWarning, match="blocks the running event loop"):
            asyncio.run(use())


async def test_the_event_of_a_loss_is_no_truth_value_in_a_task(redis_url: str) -> None:
    """``if hold.lost`` is an error in a task, too."""
    async with interlock.asyncio.connect(redis_url) as client, client.lock("name") as hold:
        with pytest.raises(TypeError, match="is_set"):
            bool(hold.lost)


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(3)])
def test_a_client_that_cannot_release_keeps_the_error_of_the_body(error: BaseException) -> None:
    """If the server is gone, the block of a client raises the body's own exception."""
    with RedisServer() as own:
        with pytest.raises(type(error)) as raised:  # noqa: SIM117 - the server goes inside
            with interlock.connect(own.url(), outage_timeout=0.2, command_timeout=0.2) as client:
                client.lock("name").acquire()
                own.kill()
                raise error
        assert raised.value is error
        assert "interlock: " in raised.value.__notes__[0]
