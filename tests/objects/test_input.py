"""Bad input raises its own clear error at once, and changes nothing on the server."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import Any

import pytest
import redis
from tests.objects.acts import each_face, held, of_kinds
from tests.objects.stage import NAME, Stage

import interlock
from interlock import ConfigError, Options, WrongTypeError

NAN = math.nan


class Job(str, Enum):  # noqa: UP042 - a StrEnum would be its value for f-strings too
    """A text that has another `str` than its own characters."""

    NAME = NAME


@each_face
def test_names(stage: Stage) -> None:
    """A name is a string that is not empty and can be encoded; of an enum, its characters count."""
    clients, owner = stage.clients(), stage.actor()
    wrong: dict[Any, type[Exception]] = {"": ValueError, 7: TypeError, b"n": TypeError}
    for name, error in {**wrong, "\ud800": ValueError}.items():
        with pytest.raises(error, match="name"):
            stage.lock(*clients, name=name)
    lock = stage.lock(*clients, name=Job.NAME)
    assert owner.do(lock.acquire, lease=50)
    if not stage.kind.shared:
        assert not stage.actor().do(stage.lock().acquire, timeout=0)
    owner.do(lock.extend, 200)
    assert owner.do(lock.remaining) > 50
    assert not any("Job" in key for key in stage.left())
    owner.do(lock.release)
    assert not stage.left()


ACQUIRES: tuple[dict[str, Any], ...] = (
    *({"timeout": -2}, {"timeout": NAN}, {"timeout": "1"}, {"blocking": 5}),
    *({"blocking": False, "timeout": 1}, {"lease": 0}, {"lease": NAN}),
    *({"lease": interlock.options.MIN_LEASE / 2}, {"lease": interlock.options.MAX_LEASE * 2}),
    {"lease": "1"},
)
FACTORIES: tuple[dict[str, Any], ...] = ({"timeout": -3}, {"timeout": NAN}, {"lease": 0.005})


@each_face
def test_arguments_that_cannot_be(stage: Stage) -> None:
    """Each timeout and lease that cannot be is an error, threading's for the longest; none takes."""
    clients, owner = stage.clients(), stage.actor()
    lock = stage.lock(*clients)
    for arguments in ACQUIRES:
        with pytest.raises(ConfigError):
            owner.do(lock.acquire, **arguments)
    with pytest.raises(OverflowError):
        owner.do(lock.acquire, timeout=threading.TIMEOUT_MAX + 1e6)
    for options in FACTORIES:
        with pytest.raises(ConfigError):
            stage.lock(*clients, **options)
    with pytest.raises(TypeError):
        stage.lock(*clients, nonsense=1)
    assert not stage.left()
    hold = held(owner, lock, lease=30)
    for lease in (0, NAN, 0.005, "1"):
        with pytest.raises(ConfigError, match="lease"):
            owner.do(lock.extend, lease)
    assert 4 < hold.remaining <= 30
    owner.do(lock.release)


@each_face
def test_timeouts_that_threading_takes(stage: Stage) -> None:
    """None and -1 wait for ever, 0 tries once, and blocking=False goes with -1."""
    lock, owner = stage.lock(), stage.actor()
    for arguments in (
        *({"timeout": None}, {"timeout": -1}, {"timeout": 0}, {"timeout": threading.TIMEOUT_MAX}),
        *({"blocking": False}, {"blocking": False, "timeout": -1}),
    ):
        assert owner.do(lock.acquire, **arguments)
        owner.do(lock.release)
    assert owner.do(lock.acquire, True, 5)
    owner.do(lock.release)


@each_face
@of_kinds(lambda kind: kind.servers == 1 and kind.name not in ("read", "together"))
def test_a_key_of_another_type(stage: Stage, seen: redis.Redis) -> None:
    """Every call on a name that something else uses raises WrongTypeError and changes nothing."""
    lock, owner = stage.lock(timeout=3), stage.actor()
    for write in (seen.set, seen.rpush, seen.sadd):
        seen.delete(NAME)
        write(NAME, "precious")
        before = seen.dump(NAME)
        for call, *arguments in (
            (lock.acquire,),
            (lock.acquire, False),
            (lock.locked,),
            (lock.remaining,),
            (lock.force_release,),
        ):
            with pytest.raises(WrongTypeError, match=f"'{NAME}'") as caught:
                owner.do(call, *arguments)
            assert NAME in caught.value.keys
        with pytest.raises(WrongTypeError):
            owner.enter(lock)
        assert seen.dump(NAME) == before
        assert seen.ttl(NAME) == -1
        assert owner.do(lambda: lock.hold) is None


def _refused(client: Any) -> Iterator[tuple[Callable[[], Any], type[Exception], str]]:
    """Yield calls of objects that are no lock-likes, the error of each, and a word of it."""
    plain, leased = client.semaphore(NAME), client.leased_semaphore(NAME)
    latch, event, condition = (
        client.count_down_latch(NAME),
        client.event(NAME),
        client.condition(NAME),
    )
    for call, numbers, word in (
        (plain.acquire, (2**31, 1.0, "1", True), "permits"),
        (plain.release, (2**31, 1.0, "1", True), "permits"),
        (plain.try_set_permits, (2**31, 1.0, "1", True), "permits"),
        (plain.add_permits, (2**31, 1.0, "1", True), "permits"),
        (leased.acquire, (0, 10_001, 1.0, True), "permits"),
        (leased.try_acquire, (0, 10_001, 1.0, True), "permits"),
        (leased.set_permits, (1.0, True), "permits"),
        (leased.try_set_permits, (1.0, True), "permits"),
        (latch.try_set_count, (0, 2**53 + 1, 1.0, True), "count"),
        (condition.notify, (-1, 1_000_001, 1.0, "1", True), "waiters"),
        (partial(client.barrier, NAME), (0, 1_000_001, 1.0, True), "parties"),
        (partial(client.limited, NAME), (0, -1, 1.5), "permits"),
    ):
        for number in numbers:
            yield partial(call, number), ValueError if type(number) is int else TypeError, word
    for wait in (
        *(event.wait, latch.wait, plain.acquire, leased.try_acquire, client.barrier(NAME, 2).wait),
        condition.wait,
    ):
        for timeout in (-2, NAN, "1"):
            yield partial(wait, timeout=timeout), ConfigError, "timeout must be"
    for candidate, error in (("", ValueError), ("x" * 1001, ValueError), (5, TypeError)):
        yield partial(client.election, NAME, candidate=candidate), error, "candidate"
    for values in ("abc", [1], [b"a"], ["a", None]):
        yield partial(client.group_lock, NAME, values), TypeError, "value"
    for values in ([], ["\ud800"]):
        yield partial(client.group_lock, NAME, values), ConfigError, "value"
    for idle in (0, -1, NAN, "1"):
        yield partial(client.leased_semaphore, NAME, permits=1, idle=idle), ConfigError, "idle"
        yield partial(client.event, NAME, idle=idle), ConfigError, "idle"
    yield partial(client.semaphore, NAME, idle=1), ConfigError, "give permits= too"
    yield partial(client.count_down_latch, NAME, idle=1), ConfigError, "give count= too"
    yield partial(leased.acquire, lease=0), ConfigError, "lease"
    yield partial(client.limited, NAME, 1, lease=-1), ConfigError, "lease"
    yield partial(client.limited, NAME, 1, timeout=-3), ConfigError, "timeout"
    yield partial(client.limited, test_names, 1), TypeError, "a name must be a str"
    yield client.limited("{model}", 1).acquire, ConfigError, "model"


@each_face
def test_arguments_of_other_objects(scene: Stage) -> None:
    """What cannot be raises a clear error before anything is sent."""
    client, owner = scene.client(), scene.actor()
    before = scene.place.asked()
    for call, error, word in _refused(client):
        with pytest.raises(error, match=word):
            owner.do(call)
            pytest.fail(f"{call} was not refused")
    assert scene.place.asked() == before
    assert not scene.left()


def _uses(client: Any) -> dict[str, list[Callable[[], Any]]]:
    plain, leased = client.semaphore(NAME), client.leased_semaphore(NAME)
    latch, event, barrier = (
        client.count_down_latch(NAME),
        client.event(NAME),
        client.barrier(NAME, 2),
    )
    return {
        NAME: [
            *(plain.acquire, plain.release, plain.release_if_exists, plain.drain_permits),
            *(plain.available_permits, partial(plain.add_permits, 1)),
            *(partial(plain.try_set_permits, 1), leased.acquire, leased.permits),
            *(partial(leased.set_permits, 2), partial(leased.add_permits, 2)),
            *(latch.count, latch.wait, latch.count_down, latch.delete),
            partial(latch.try_set_count, 1),
        ],
        f"interlock_event:{{{NAME}}}": [event.set, event.clear, event.is_set, event.wait],
        f"interlock_barrier:{{{NAME}}}": [barrier.wait, barrier.abort, barrier.reset],
    }


@each_face
@pytest.mark.parametrize("value", ["string", "list"])
def test_a_key_of_another_type_for_other_objects(
    scene: Stage, seen: redis.Redis, value: str
) -> None:
    """Every call raises WrongTypeError, which tells what was found, and leaves the key alone."""
    owner = scene.actor()
    for key, calls in _uses(scene.client()).items():
        write: Any = seen.set if value == "string" else seen.rpush
        write(key, "precious")
        before = seen.dump(key)
        for call in calls:
            with pytest.raises(WrongTypeError, match=f"is a {value}"):
                owner.do(call)
        assert seen.dump(key) == before
        notes = "interlock_request:"  # of a call's copies; it expires
        assert {left for left in scene.left() if not left.startswith(notes)} == {key}
        seen.delete(key)


@pytest.mark.parametrize(
    "bad",
    [
        *({"lease": 0.005}, {"lease": NAN}, {"fair_wait": -1}, {"command_timeout": math.inf}),
        *({"outage_timeout": "x"}, {"pubsub": "loud"}, {"replicas": 2}),
    ],
    ids=str,
)
def test_option_values(bad: dict[str, Any]) -> None:
    """An option's value that cannot work is refused when the options are made."""
    with pytest.raises(ConfigError, match=next(iter(bad))):
        Options(**bad)
