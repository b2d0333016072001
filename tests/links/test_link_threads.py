"""A process that has as many threads as it may have, and the threads of calls to many servers."""

from __future__ import annotations

import _thread
import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.interrupting import Blow
from tests.support.patience import wait_until

import interlock
import interlock.asyncio
from interlock import ServerUnavailableError
from interlock._core.model.effects import Eval, Script
from interlock._drivers import fan_out
from interlock._links.endpoint import Endpoint
from interlock._links.pool import Pool

if TYPE_CHECKING:
    import redis
    from tests.objects.awaited import Stage


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Let no thread of ours start from the moment that the test appends to this list."""
    full: list[bool] = []
    real, bare = threading.Thread.start, _thread.start_new_thread

    def start(self: threading.Thread) -> None:
        if full and self.name.startswith("interlock-"):
            raise RuntimeError("can't start new thread")
        real(self)

    def start_bare(*arguments: Any) -> int:  # `threading` has its own reference
        if full:
            raise RuntimeError("can't start new thread")
        return bare(*arguments)

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(_thread, "start_new_thread", start_bare)
    return full


async def test_a_crowd_of_first_calls_starts_few_threads(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one for each task: a container with many tasks has room for few threads."""
    real, started = _thread.start_new_thread, list[object]()

    def start(*arguments: Any) -> int:
        started.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(_thread, "start_new_thread", start)
    async with interlock.asyncio.connect(redis_url) as client:

        async def visit(number: int) -> None:
            async with client.lock(f"name {number}"):
                pass

        _ = await asyncio.gather(*map(visit, range(500)))
    assert len(started) < 10


async def test_waiters_poll_without_a_subscriber(
    stage: Stage, redis_client: redis.Redis, crowded: list[bool]
) -> None:
    """If the subscriber thread cannot start, a waiter polls, and close() still releases all."""
    client, owner = stage.client(lease=3), stage.owner()
    held, wanted = client.lock("held"), client.lock("wanted")
    assert await owner.do(held.acquire)
    redis_client.hset("wanted", "somebody:1", 1)
    crowded.append(True)
    redis_client.pexpire("wanted", 400)
    assert await owner.do(wanted.acquire, timeout=10)
    assert redis_client.pubsub_channels() == []
    await stage.close(client)
    assert redis_client.keys() == []


def test_nothing_is_held_without_renewal(redis_url: str, crowded: list[bool]) -> None:
    """If the renewal thread cannot start, an acquire raises and nothing is held."""
    crowded.append(True)
    with interlock.connect(redis_url) as client:
        with pytest.raises(ServerUnavailableError, match="'interlock-upkeep' cannot be started"):
            client.lock("name").acquire()
        assert client.lock("name").hold is None


class BlowInThreading(Blow):
    """Strikes in the module `threading`, too."""

    _PACKAGE = (Blow._PACKAGE, str(threading.__file__))


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_ctrl_c_anywhere_while_a_thread_connects(redis_url: str, redis_client: redis.Redis) -> None:
    """No call is made twice: who asked would not know of the second one."""
    count: Script[object] = Script("count", "return redis.call('incr', KEYS[1])", lambda told: told)
    threads, blow = _thread._count(), BlowInThreading(1)
    while blow.struck:
        pool = Pool(Endpoint.from_url(redis_url))  # which has no connection yet
        calls = [Eval(count, (f"{name}{blow.at}",), ()) for name in "ab"]
        with suppress(KeyboardInterrupt), blow:
            assert fan_out.ask([(pool, call, 30.0) for call in calls]) == [1, 1]
        wait_until(lambda: _thread._count() <= threads, 30, f"{blow} leaves no thread")
        assert set(redis_client.mget([call.keys[0] for call in calls])) <= {b"1", None}, str(blow)
        pool.close(0)
        blow = blow.next()
    assert blow.at > 20
