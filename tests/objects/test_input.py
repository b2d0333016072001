"""Bad input raises its own clear error at once, and changes nothing on the server."""

from __future__ import annotations

import math
import threading
from enum import Enum
from typing import Any

import pytest
import redis
from tests.objects.acts import held, of_kinds
from tests.objects.common import each_face
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
    {"timeout": -2},
    {"timeout": NAN},
    {"timeout": "1"},
    {"blocking": 5},
    {"blocking": False, "timeout": 1},
    {"lease": 0},
    {"lease": NAN},
    {"lease": interlock.options.MIN_LEASE / 2},
    {"lease": interlock.options.MAX_LEASE * 2},
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
        {"timeout": None},
        {"timeout": -1},
        {"timeout": 0},
        {"timeout": threading.TIMEOUT_MAX},
        {"blocking": False},
        {"blocking": False, "timeout": -1},
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


@pytest.mark.parametrize(
    "bad",
    [
        {"lease": 0.005},
        {"lease": NAN},
        {"fair_wait": -1},
        {"command_timeout": math.inf},
        {"outage_timeout": "x"},
        {"pubsub": "loud"},
        {"replicas": 2},
    ],
    ids=str,
)
def test_option_values(bad: dict[str, Any]) -> None:
    """An option's value that cannot work is refused when the options are made."""
    with pytest.raises(ConfigError, match=next(iter(bad))):
        Options(**bad)
