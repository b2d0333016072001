"""What no face can see of calls on counters: refusals, late answers, and what a look costs."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until

import interlock
from interlock._core.objects.count_down_latch import CountDownLatch
from interlock._core.objects.event import Event
from interlock._core.objects.semaphore import Semaphore
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from interlock._core.model.effects import Step

FOREVER, PROMPT = float("inf"), 5.0


class Kit:
    """A client's driver, and what it makes."""

    def __init__(self, url: str, **options: Any) -> None:
        self.client = interlock.connect(url, **options)
        self.driver: Any = self.client._driver
        self.driver.begin()
        self.session = self.driver.session

    def semaphore(self) -> Semaphore:
        """Return the semaphore."""
        return Semaphore(self.session, "name", "name")

    def perform(self, step: Step[Any]) -> Any:
        """Perform *step*; return its result."""
        return self.driver.perform(step)

    def start(self, step: Step[Any]) -> threading.Thread:
        """Perform *step* in a thread; return that when it waits."""
        thread = threading.Thread(target=self.perform, args=[step])
        waits = len(self.session.queues.places)
        thread.start()
        wait_until(lambda: len(self.session.queues.places) > waits, PROMPT, "it waits")
        line = next(iter(self.session.lines.values()))
        wait_until(lambda: line.heard, PROMPT, "it hears")
        time.sleep(0.05)
        return thread

    def settled(self) -> bool:
        """Return whether nothing is under way, or left to the background."""
        return not (self.session.calls or self.session.garbage.dead)


@pytest.fixture
def kit(redis_url: str) -> Iterator[Kit]:
    """Return a kit."""
    made = Kit(redis_url)
    yield made
    made.client.close()


def test_a_full_server_takes_releases(kit: Kit, redis_client: redis.Redis) -> None:
    """An acquire is refused and takes nothing; releases, undos and openings are executed."""
    redis_client.mset({"name": 3, "interlock_event:{other}": "clear x"})
    latch = CountDownLatch(kit.session, "latch", "latch", 1)
    assert kit.driver.run(latch.count()) == 1
    before = redis_client.config_get("maxmemory")["maxmemory"]
    redis_client.config_set("maxmemory", 1)
    try:
        step = kit.semaphore().acquire(1, 0.0)
        with pytest.raises(ServerUnavailableError):
            kit.perform(step)
        step.give_up()
        kit.perform(kit.semaphore().release(2))
        kit.perform(latch.count_down())
        kit.perform(Event(kit.session, "other", "other").set())
        wait_until(kit.settled, PROMPT, "the acquire is undone")
    finally:
        redis_client.config_set("maxmemory", before)
    assert redis_client.get("name") == b"5"
    assert kit.driver.run(latch.count()) == 0
    assert kit.driver.run(Event(kit.session, "other", "other").is_set())


def test_one_look_lets_all_go_on(kit: Kit, redis_client: redis.Redis) -> None:
    """When a gate opens, one waiter of a client looks, and the others need not."""
    event = Event(kit.session, "name", "name")
    waiting = [kit.start(event.wait(FOREVER)) for _ in range(8)]
    before = redis_client.info("commandstats")["cmdstat_evalsha"]["calls"]
    kit.perform(event.set())
    for each in waiting:
        each.join(PROMPT)
    after = redis_client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert after - before <= 3  # the setting, the look, and one of the upkeep's at most


def test_an_answer_that_comes_while_its_client_closes(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread takes it behind the end of all calls; all else is released, and no error raised."""
    redis_client.set("name", 5)
    kit = Kit(redis_url)
    assert kit.client.lock("lock").acquire()
    step = kit.semaphore().acquire(1, 0.0)
    call: Any = step.begin()
    answer = call.script.decode(kit.driver.perform_effect(call))
    ended: Any = kit.driver._upkeep._release

    def release(*given: Any) -> Any:
        _ = step.done(answer)
        return ended(*given)

    monkeypatch.setattr(kit.driver._upkeep, "_release", release)
    kit.client.close()
    assert not redis_client.exists("lock")
    assert redis_client.get("name") == b"4"
