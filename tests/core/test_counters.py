"""What no face can see of calls on counters: copies, undos, lines, refusals and lost data."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until

import interlock
from interlock._core.objects.count_down_latch import CountDownLatch
from interlock._core.objects.event import Event
from interlock._core.objects.number import LeasedNumber
from interlock._core.objects.semaphore import Semaphore
from interlock.errors import ServerUnavailableError, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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

    def semaphore(self, permits: int | None = None, **options: Any) -> Semaphore:
        """Return the semaphore."""
        return Semaphore(self.session, "name", "name", permits, **options)

    def perform(self, step: Step[Any]) -> Any:
        """Perform *step*; return its result."""
        return self.driver.perform(step)

    def start(self, step: Step[Any]) -> threading.Thread:
        """Perform *step* in a thread; return that when it waits."""
        # A daemon, because one test takes the bell away from its waiter.
        thread = threading.Thread(target=self.perform, args=[step], daemon=True)
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


CHANGES: dict[str, Callable[[Kit], Step[Any]]] = {
    "acquire": lambda kit: kit.semaphore().acquire(1, 0.0),
    "first-acquire": lambda kit: kit.semaphore(4).acquire(1, 0.0),
    "release": lambda kit: kit.semaphore().release(2),
    "release-if-exists": lambda kit: kit.semaphore().release(2, "0"),
    "add": lambda kit: kit.semaphore().add_permits(-2),
    "set": lambda kit: kit.semaphore().set_permits(9),
    "make": lambda kit: kit.semaphore().try_set_permits(9),
    "drain": lambda kit: kit.semaphore().drain_permits(),
    "delete": lambda kit: kit.semaphore().delete(),
    "count-down": lambda kit: CountDownLatch(kit.session, "name", "name").count_down(),
    "set-count": lambda kit: CountDownLatch(kit.session, "name", "name").try_set_count(9),
    "delete-latch": lambda kit: CountDownLatch(kit.session, "name", "name").delete(),
    "set-event": lambda kit: Event(kit.session, "name", "name").set(),
    "clear-event": lambda kit: Event(kit.session, "name", "name").clear(),
}


def _state(server: redis.Redis) -> dict[bytes, Any]:
    keys = [key for key in server.scan_iter() if b":{name}:" not in key]
    return {key: server.get(key) for key in keys}


@pytest.mark.parametrize("what", [*CHANGES])
@pytest.mark.parametrize("there", [True, False], ids=["there", "missing"])
def test_a_copy_does_nothing(
    kit: Kit, redis_client: redis.Redis, what: str, *, there: bool
) -> None:
    """A copy gives the same answer; one that comes after a later call by its key changes nothing."""
    if there:
        redis_client.mset({"name": 5, "interlock_event:{name}": "set x"})
        redis_client.set("interlock_semaphore_total:{name}", 5)
    step = CHANGES[what](kit)
    call: Any = step.begin()
    first = kit.driver.eval(call.anew())
    before = _state(redis_client)
    again = kit.driver.eval(call.anew())
    assert _state(redis_client) == before
    if not isinstance(first, list) and what != "acquire":
        assert again == first
    assert step.done(call.script.decode(first)) is True or what == "acquire"
    if what not in ("acquire", "first-acquire", "drain"):
        counter: Any = step._counter  # type: ignore[attr-defined]
        if what.endswith("event"):
            kit.perform(counter.set())
        elif "count" in what or "latch" in what:
            kit.perform(counter.try_set_count(7))
        else:
            kit.perform(counter.release(3))
        before = _state(redis_client)
        kit.driver.eval(call.anew())
        assert _state(redis_client) == before


@pytest.mark.parametrize("what", ["acquire", "drain"])
@pytest.mark.parametrize("late", [True, False], ids=["late", "executed"])
def test_what_was_given_up_is_undone(
    kit: Kit, redis_client: redis.Redis, what: str, *, late: bool
) -> None:
    """The background undoes it by its key. A copy that comes late does nothing."""
    redis_client.set("name", 5)
    step = CHANGES[what](kit)
    call: Any = step.begin()
    if not late:
        kit.driver.eval(call.anew())
        assert redis_client.get("name") in (b"4", b"0")
    step.give_up()
    step.give_up()
    wait_until(kit.settled, PROMPT, "it is undone")
    assert redis_client.get("name") == b"5"
    kit.driver.eval(call.anew())
    assert redis_client.get("name") == b"5"


def test_an_acquire_that_was_answered_is_given_back(kit: Kit, redis_client: redis.Redis) -> None:
    """A signal may come between the answer and the caller; its key may be in use by others then."""
    redis_client.set("name", 5)
    semaphore = kit.semaphore()
    step = semaphore.acquire(2, 0.0)
    assert kit.perform(step)
    for _ in range(3):
        kit.perform(semaphore.acquire(1, 0.0))
    assert redis_client.get("name") == b"0"
    step.give_up()
    step.give_up()
    wait_until(kit.settled, PROMPT, "it is given back")
    assert redis_client.get("name") == b"2"


@pytest.mark.parametrize("begun", [True, False])
def test_a_release_that_was_given_up_is_completed(
    kit: Kit, redis_client: redis.Redis, *, begun: bool
) -> None:
    """It counts once, whether or not the server has executed it, or it has begun."""
    step = kit.semaphore().release(2)
    if begun:
        call: Any = step.begin()
        kit.driver.eval(call.anew())
    step.give_up()
    step.give_up()
    wait_until(kit.settled, PROMPT, "it is completed")
    assert redis_client.get("name") == b"2"


def test_a_release_that_is_refused_is_not_sent_again(kit: Kit, redis_client: redis.Redis) -> None:
    """What the server itself refuses is over."""
    redis_client.hset("name", "a", "b")
    step = kit.semaphore().release(2)
    with pytest.raises(WrongTypeError):
        kit.perform(step)
    step.give_up()
    assert kit.settled()


def test_keys_of_answered_calls_are_used_again(kit: Kit, redis_client: redis.Redis) -> None:
    """However many calls are made one after the other, they need one key."""
    semaphore = kit.semaphore()
    for _ in range(10):
        kit.perform(semaphore.release(1))
        kit.perform(semaphore.acquire(1, 0.0))
    [key] = redis_client.keys("redisson_unlock_latch:*")
    assert 0 < redis_client.pttl(key) <= 42_000
    assert kit.settled()


def test_those_without_messages_poll(redis_url: str, redis_client: redis.Redis) -> None:
    """With ``pubsub="off"`` the oldest asks ten times a second, and rings the next one."""
    kit = Kit(redis_url, pubsub="off")
    redis_client.set("name", 0)
    threads = [
        threading.Thread(target=kit.perform, args=[kit.semaphore().acquire(1, FOREVER)])
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(kit.session.queues.places) == 3, PROMPT, "they wait")
    kit.perform(kit.semaphore().release(3))
    began = time.monotonic()
    for thread in threads:
        thread.join(PROMPT)
    assert time.monotonic() - began < 1
    kit.client.close()


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


def test_a_count_down_behind_a_deletion_sets_no_count(kit: Kit) -> None:
    """A late answer to who thought the latch was set up is not taken for the count of the next one."""
    latch = CountDownLatch(kit.session, "name", "name", 1)
    kit.perform(latch.count_down())
    late = latch.count_down()
    call: Any = late.begin()
    assert kit.perform(latch.delete())
    _ = late.done(call.script.decode(kit.driver.eval(call)))
    assert not kit.perform(latch.wait(0.0))
    assert kit.driver.run(latch.count()) == 1


def test_an_answer_that_comes_while_its_client_closes(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread takes it behind the end of all calls; all else is released, and no error raised."""
    redis_client.set("name", 5)
    kit = Kit(redis_url)
    assert kit.client.lock("lock").acquire()
    step = kit.semaphore().acquire(1, 0.0)
    call: Any = step.begin()
    answer = call.script.decode(kit.driver.eval(call))
    ended: Any = kit.driver._upkeep._by_node

    def by_node(work: Any) -> Any:
        _ = step.done(answer)
        return ended(work)

    monkeypatch.setattr(kit.driver._upkeep, "_by_node", by_node)
    kit.client.close()
    assert not redis_client.exists("lock")
    assert redis_client.get("name") == b"4"


def test_only_the_first_wait_asks_whether_a_leased_semaphore_is_set_up(kit: Kit) -> None:
    """Each later one costs no script more."""
    number = LeasedNumber(kit.session, "name", "name")
    kit.driver.run(number.note_wait(FOREVER))
    assert not list(number.note_wait(FOREVER))
