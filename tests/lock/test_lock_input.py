"""Bad input raises its own clear error at once, and changes nothing on the server."""

from __future__ import annotations

import math
import threading
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import KINDS, ON_ONE_SERVER, READ, Kind

import interlock
from interlock import ClosedError, ConfigError, Options, WrongTypeError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage

NAN = math.nan


@pytest.fixture(params=[*KINDS, READ], ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Give each lock-like in turn, also that of readers."""
    return request.param


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("", ValueError),
        (None, TypeError),
        (7, TypeError),
        (b"n", TypeError),
        ("\ud800", ValueError),
    ],
    ids=["empty", "None", "int", "bytes", "surrogate"],
)
async def test_names(stage: Stage, name: Any, error: type[Exception]) -> None:
    """A name must be a string that is not empty and can be encoded."""
    with pytest.raises(error, match="name"):
        stage.lock(stage.client(), name)
    assert stage.left_behind() == set()


class Job(str, Enum):  # noqa: UP042 - a StrEnum would be its value for f-strings too
    """A text that has another `str` than its own characters."""

    NAME = "name"
    VALUE = "one"
    ID = "c0ffee"


class Pretender:
    """An object that says that it is a str."""

    __class__ = str  # type: ignore[assignment]

    def encode(self) -> bytes:
        """Do what a str does."""
        return b"name"


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


async def test_a_name_that_only_pretends_to_be_text(stage: Stage) -> None:
    """An object that is no str is refused, whatever it says of its class."""
    with pytest.raises(TypeError, match="Pretender"):
        stage.lock(stage.client(), Pretender())  # type: ignore[arg-type]


async def test_each_text_is_a_plain_str(plain: Stage) -> None:
    """Names, prefixes, values, reasons and ids are exact strings behind the door."""
    client = plain.client(prefix=Job.NAME)
    made = [
        client.lock("any")._core.key,
        client.lock(Job.NAME).name,
        client.fair_lock(Job.NAME).name,
        client.read_write_lock(Job.NAME).write.name,
        client.semaphore(Job.NAME).name,
        client.leased_semaphore(Job.NAME).name,
        client.count_down_latch(Job.NAME).name,
        client.event(Job.NAME).name,
        client.barrier(Job.NAME, 2).name,
        client.election(Job.NAME, candidate=Job.VALUE).name,
        client.condition(Job.NAME, name=Job.VALUE).name,
        *client.group_lock("group", [Job.VALUE])._core.values,
    ]
    assert {type(text) for text in made} == {str}
    assert made[0] == "nameany"


ACQUIRES: dict[str, dict[str, Any]] = {
    "negative timeout": {"timeout": -2},
    "slightly negative timeout": {"timeout": -0.5},
    "NaN timeout": {"timeout": NAN},
    "infinite timeout": {"timeout": math.inf},
    "huge timeout": {"timeout": threading.TIMEOUT_MAX + 1e6},
    "timeout of text": {"timeout": "1"},
    "blocking of a number": {"blocking": 5},
    "timeout without blocking": {"blocking": False, "timeout": 1},
    "timeout 0 without blocking": {"blocking": False, "timeout": 0},
    "negative lease": {"lease": -1},
    "no lease": {"lease": 0},
    "NaN lease": {"lease": NAN},
    "infinite lease": {"lease": math.inf},
    "lease below the minimum": {"lease": interlock.options.MIN_LEASE / 2},
    "lease above the maximum": {"lease": interlock.options.MAX_LEASE * 2},
    "lease of text": {"lease": "1"},
}


@pytest.mark.parametrize("arguments", ACQUIRES.values(), ids=ACQUIRES)
async def test_arguments_of_acquire(stage: Stage, arguments: dict[str, Any]) -> None:
    """Each timeout and lease that cannot be is a ConfigError (or threading's error) and takes nothing."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    too_long = arguments.get("timeout") in (math.inf, threading.TIMEOUT_MAX + 1e6)
    with pytest.raises(OverflowError if too_long else ConfigError):
        await owner.do(lock.acquire, **arguments)
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


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timeout": -3}, ValueError),
        ({"timeout": NAN}, ValueError),
        ({"timeout": math.inf}, OverflowError),
        ({"lease": 0.005}, ValueError),
        ({"lease": NAN}, ValueError),
        ({"nonsense": 1}, TypeError),
    ],
)
async def test_arguments_of_the_factory(
    stage: Stage, options: dict[str, Any], error: type[Exception]
) -> None:
    """The options of a with statement are checked when the lock is made."""
    with pytest.raises(error):
        stage.lock(stage.client(), **options)


@pytest.mark.parametrize("lease", [-1, 0, NAN, 0.005, "1"])
async def test_arguments_of_extend(stage: Stage, lease: Any) -> None:
    """A lease to extend by must make sense; the hold is as before."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    await owner.do(lock.acquire, lease=5)
    with pytest.raises(ValueError, match="lease"):
        await owner.do(lock.extend, lease)
    assert 4 < await owner.do(lock.remaining) <= 5


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


async def test_a_closed_client(stage: Stage) -> None:
    """After close each call that asks the server raises ClosedError, even of an unused client."""
    for used in (True, False):
        client, owner = stage.client(), stage.owner()
        lock = stage.lock(client)
        if used:
            await owner.do(lock.acquire)
        await stage.close(client)
        for call in (lock.acquire, lock.locked, lock.remaining, lock.force_release):
            with pytest.raises(ClosedError, match="closed"):
                await owner.do(call)
        with pytest.raises(RuntimeError):
            await owner.do(lock.release)
        assert await owner.do(lock.hold_count) == 0
    assert stage.left_behind() == set()


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
