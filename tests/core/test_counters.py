"""What no face can see of calls on counters: refusals, late answers, and what a look costs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until

from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import redis

    from interlock import Client

PROMPT = 5.0


def test_a_full_server_takes_releases(client: Client, redis_client: redis.Redis) -> None:
    """An acquire is refused and takes nothing; releases, undos and openings are executed."""
    redis_client.mset({"name": 3, "interlock_event:{other}": "clear x"})
    semaphore, event = client.semaphore("name"), client.event("other")
    latch, session = client.count_down_latch("latch", 1), client._driver.session
    assert latch.count() == 1
    before = redis_client.config_get("maxmemory")["maxmemory"]
    redis_client.config_set("maxmemory", 1)
    try:
        with pytest.raises(ServerUnavailableError):
            semaphore.acquire(timeout=0)
        semaphore.release(2)
        latch.count_down()
        event.set()
        wait_until(
            lambda: not (session.calls or session.garbage.dead), PROMPT, "the acquire is undone"
        )
    finally:
        redis_client.config_set("maxmemory", before)
    assert redis_client.get("name") == b"5"
    assert latch.count() == 0
    assert event.is_set()


def test_one_look_lets_all_go_on(
    client: Client, redis_client: redis.Redis, pool: ThreadPoolExecutor
) -> None:
    """When a gate opens, one waiter of a client looks, and the others need not."""
    event, session = client.event("name"), client._driver.session
    waiting = [pool.submit(event.wait) for _ in range(8)]
    wait_until(lambda: len(session.queues.places) == 8, PROMPT, "all wait")
    wait_until(lambda: all(line.ready for line in session.lines.values()), PROMPT, "they hear")
    time.sleep(0.3)  # until the first has looked
    before = redis_client.info("commandstats")["cmdstat_evalsha"]["calls"]
    event.set()
    assert all(each.result(PROMPT) for each in waiting)
    after = redis_client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert after - before <= 3  # the setting, the look, and one of the upkeep's at most


def test_an_answer_that_comes_while_its_client_closes(
    client: Client, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread takes it behind the end of all calls; all else is released, and no error raised."""
    redis_client.set("name", 5)
    assert client.lock("lock").acquire()
    driver: Any = client._driver
    step = client.semaphore("name")._core.acquire(1, 0.0)
    call: Any = step.begin()
    answer = call.script.decode(driver.perform_effect(call))
    ended: Any = driver._upkeep._release

    def release(*given: Any) -> Any:
        _ = step.done(answer)
        return ended(*given)

    monkeypatch.setattr(driver._upkeep, "_release", release)
    client.close()
    assert not redis_client.exists("lock")
    assert redis_client.get("name") == b"4"


def test_who_is_struck_behind_its_turn_stands_in_nobodys_way(
    client: Client,
    redis_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    pool: ThreadPoolExecutor,
) -> None:
    """A Ctrl-C comes when it has its permit, and before it leaves its line."""
    redis_client.set("name", 0)
    semaphore, queues = client.semaphore("name"), client._driver.session.queues

    def strike(_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    waiting = pool.submit(semaphore.acquire, timeout=PROMPT)
    wait_until(lambda: bool(queues.places), PROMPT, "it waits")
    monkeypatch.setattr(queues, "forget", strike)
    semaphore.release()
    with pytest.raises(KeyboardInterrupt):
        waiting.result(2 * PROMPT)
    wait_until(lambda: redis_client.get("name") == b"1", PROMPT, "its permit comes back")
    assert not queues.places
    assert not any(line.waiters for line in queues.lines.values())
