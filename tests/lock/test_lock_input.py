"""Bad input raises its own clear error at once, and changes nothing on the server."""

from __future__ import annotations

import math
import threading
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import KINDS, ON_ONE_SERVER, READ, Kind

import interlock
from interlock import ConfigError, Options, WrongTypeError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage

NAN = math.nan


@pytest.fixture(params=[*KINDS, READ], ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Give each lock-like in turn, also that of readers."""
    return request.param


async def test_names(stage: Stage) -> None:
    """A name must be a string that is not empty and can be encoded."""
    client, nothing = stage.client(), stage.left_behind()
    wrong: dict[Any, type[Exception]] = {"": ValueError, 7: TypeError, b"n": TypeError}
    for name, error in {**wrong, "\ud800": ValueError}.items():
        with pytest.raises(error, match="name"):
            stage.lock(client, name)
    assert stage.left_behind() == nothing == set()


class Job(str, Enum):  # noqa: UP042 - a StrEnum would be its value for f-strings too
    """A text that has another `str` than its own characters."""

    NAME = "name"
    VALUE = "one"
    ID = "c0ffee"


@pytest.mark.parametrize("kind", KINDS, indirect=True, ids=lambda kind: kind.name)
async def test_a_name_that_is_an_enum(stage: Stage) -> None:
    """A subclass of str is the name that its characters are, for each command of a hold."""
    client, owner, other = stage.client(), stage.owner(), stage.owner()
    lock = stage.lock(client, Job.NAME)
    assert await owner.do(lock.acquire, lease=50)
    assert not await other.do(stage.lock(stage.client(), "name").acquire, timeout=0)
    await owner.do(lock.extend, 200)
    assert await owner.do(lock.remaining) > 50
    for key in stage.left_behind():
        assert "Job" not in key
    await owner.do(lock.release)
    assert stage.left_behind() == set()


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


async def test_arguments_of_acquire(stage: Stage) -> None:
    """Each timeout and lease that cannot be is an error, threading's for the longest; none takes."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    for arguments in ACQUIRES:
        with pytest.raises(ConfigError):
            await owner.do(lock.acquire, **arguments)
    with pytest.raises(OverflowError):
        await owner.do(lock.acquire, timeout=threading.TIMEOUT_MAX + 1e6)
    assert stage.left_behind() == set()
    assert await owner.do(lambda: lock.hold) is None


async def test_timeouts_that_threading_takes(stage: Stage) -> None:
    """None and -1 wait for ever, 0 tries once, and blocking=False goes with -1."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    for arguments in (
        {},
        {"timeout": None},
        {"timeout": -1},
        {"timeout": 0},
        {"timeout": threading.TIMEOUT_MAX},
        {"blocking": False},
        {"blocking": False, "timeout": -1},
    ):
        assert await owner.do(lock.acquire, **arguments)
        await owner.do(lock.release)
    assert await owner.do(lock.acquire, True, 5)
    await owner.do(lock.release)


async def test_arguments_of_the_factory(stage: Stage) -> None:
    """The options of a with statement are checked when the lock is made."""
    client = stage.client()
    for options in ({"timeout": -3}, {"timeout": NAN}, {"lease": 0.005}, {"lease": NAN}):
        with pytest.raises(ConfigError):
            stage.lock(client, **options)
    with pytest.raises(TypeError):
        stage.lock(client, nonsense=1)


async def test_arguments_of_extend(stage: Stage) -> None:
    """A lease to extend by must make sense; the hold is as before."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    await owner.do(lock.acquire, lease=30)
    for lease in (0, NAN, 0.005, "1"):
        with pytest.raises(ConfigError, match="lease"):
            await owner.do(lock.extend, lease)
    assert 4 < await owner.do(lock.remaining) <= 30


@pytest.mark.parametrize("kind", ON_ONE_SERVER, indirect=True, ids=lambda kind: kind.name)
async def test_a_key_of_another_type(stage: Stage) -> None:
    """Every call on a name that something else uses raises WrongTypeError and changes nothing."""
    lock, owner = stage.lock(stage.client(), timeout=3), stage.owner()
    for write in (stage.redis.set, stage.redis.rpush, stage.redis.sadd):
        stage.redis.delete("name")
        write("name", "precious")
        before = stage.redis.dump("name")
        for call, *arguments in (
            (lock.acquire,),
            (lock.acquire, False),
            (stage.face.enter, lock),
            (lock.locked,),
            (lock.remaining,),
            (lock.force_release,),
        ):
            with pytest.raises(WrongTypeError, match="'name'") as caught:
                await owner.do(call, *arguments)
            assert "name" in caught.value.keys
        assert stage.redis.dump("name") == before
        assert stage.redis.ttl("name") == -1
        assert await owner.do(lambda: lock.hold) is None


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
