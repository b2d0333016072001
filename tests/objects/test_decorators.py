"""Decorators: each call of a function holds a lock, or is skipped."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import redis
from tests.objects.acts import PROMPT, cancelling, each_face
from tests.objects.stage import NAME, Stage
from tests.objects.worlds import CancelledHereError
from tests.support.address import free_port
from tests.support.cards import own_keys
from tests.support.faults import command, drop_request
from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon

import interlock
from interlock import (
    AcquireTimeoutError,
    ConfigError,
    HoldLostError,
    NotHeldError,
    ServerUnavailableError,
)


@dataclass
class Order:
    """What has a number."""

    id: int


def function(scene: Stage, plain: Callable[..., Any]) -> Callable[..., Any]:
    if scene.world.face is interlock:
        return plain

    @functools.wraps(plain)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    return awaited


@each_face
@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("pay", "pay"),
        ("pay:{order_id}", "pay:7"),
        ("{order_id:03}:{where}", "007:here"),
        ("{order.id}", "8"),
        ("{rest[key]}!{where!r}", "v!'here'"),
        ("{{pay}}:{order_id}", "{pay}:7"),
    ],
)
def test_the_name_of_a_call(scene: Stage, seen: redis.Redis, template: str, name: str) -> None:
    """A call holds the lock that its arguments and defaults name, however they are passed."""

    def pay(order_id: int, order: Order, rest: dict[str, str], where: str = "here") -> set[str]:
        return own_keys(seen)

    owner, decorated = scene.actor(), scene.client().locked(template)(function(scene, pay))
    assert owner.do(decorated, 7, Order(8), rest={"key": "v"}) == {name}
    assert owner.do(decorated, rest={"key": "v"}, order=Order(8), order_id=7) == {name}
    assert own_keys(seen) == set()
    with pytest.raises(TypeError, match="order"):
        owner.do(decorated, 7)


@each_face
def test_it_decorates_methods_and_keeps_what_they_are_called(
    scene: Stage, seen: redis.Redis
) -> None:
    """A decorated method takes names from ``self``; name, docstring and signature stay."""
    client = scene.client()

    class Account:
        number = 5

        def _pay(self, order_id: int) -> set[str]:
            """Pay."""
            return own_keys(seen)

        pay = client.locked("{self.number}:{order_id}")(function(scene, _pay))

    assert scene.actor().do(Account().pay, 7) == {"5:7"}
    assert (Account.pay.__name__, Account.pay.__doc__) == ("_pay", "Pay.")
    assert list(inspect.signature(Account.pay).parameters) == ["self", "order_id"]
    assert inspect.iscoroutinefunction(Account.pay) == (scene.world.face is not interlock)


@each_face
def test_a_call_waits_as_long_as_told(scene: Stage, seen: redis.Redis) -> None:
    """A call that times out raises without running; a call that raises releases the lock."""
    client, owner, ran = scene.client(), scene.actor(), list[int]()
    decorated = client.locked("pay", timeout=timedelta(milliseconds=50))(
        function(scene, ran.append)
    )
    seen.hset("pay", "java:1", 1)
    with pytest.raises(AcquireTimeoutError, match="java:1"):
        owner.do(decorated, 1)
    seen.delete("pay")
    with pytest.raises(ValueError, match="1 is not in list"):
        owner.do(client.locked("pay")(function(scene, lambda: ran.index(1))))
    assert own_keys(seen) == set()
    assert ran == []


@each_face
def test_functions_that_cannot_be(scene: Stage) -> None:
    """Generators, classes, and functions of the other face are refused when they are decorated."""

    def plain() -> None: ...
    def generator() -> Any:
        yield

    async def coroutine() -> None: ...
    async def generates() -> Any:
        yield

    class Called:
        async def __call__(self) -> None: ...

    wrong: list[Any] = [generator, generates, Order, 7, classmethod(plain)]
    wrong += (
        [coroutine, functools.partial(coroutine), Called(), staticmethod(coroutine)]
        if scene.world.face is interlock
        else [plain, len, functools.partial(plain)]
    )
    client = scene.client()
    for each in wrong:
        for decorator in (client.locked("name"), client.single("name")):
            with pytest.raises(TypeError, match=r"generator|coroutine|only functions"):
                decorator(each)


@each_face
def test_durations_that_cannot_be(scene: Stage) -> None:
    """A duration that cannot be is refused when the decorator is made."""
    client = scene.client()
    for make, given, word in (
        (client.locked, {"timeout": -3}, "timeout"),
        (client.locked, {"lease": 0}, "lease"),
        (client.locked, {"if_unreachable": "wait"}, "if_unreachable must be"),
        (client.single, {"if_unreachable": "wait"}, "if_unreachable must be"),
        (client.single, {"min_hold": -1}, "min_hold"),
        (client.single, {"max_hold": 0}, r"max_hold must be 0\.01 to"),
        (client.single, {"min_hold": 60, "max_hold": timedelta(seconds=30)}, "must be 60 to"),
    ):
        with pytest.raises(ConfigError, match=word):
            make("name", **given)


@each_face
def test_single_skips_what_another_does(scene: Stage, seen: redis.Redis) -> None:
    """A call is skipped while the lock is held, even by its own caller, and runs afterwards."""

    def work() -> str:
        assert own_keys(seen) == {"report"}
        return "ran"

    client, owner = scene.client(), scene.actor()
    report = client.single("report", otherwise="skipped")(function(scene, work))
    seen.hset("report", "java:1", 1)
    assert owner.do(report) == "skipped"
    seen.delete("report")
    assert owner.do(report) == "ran"
    assert own_keys(seen) == set()
    nested = client.single("report")(report)
    assert owner.do(nested) == "skipped"
    assert owner.do(client.single("report")(nested)) is None


@each_face
def test_single_keeps_the_lock_of_a_call_that_fails(scene: Stage, seen: redis.Redis) -> None:
    """A function that raises leaves the lock as one that returns does; another error is a note."""

    def fail() -> None:
        raise KeyError("mine")

    def steal() -> None:
        seen.delete("stolen")
        raise KeyError("mine")

    client, owner = scene.client(), scene.actor()
    with pytest.raises(KeyError, match="mine"):
        owner.do(client.single("report", min_hold=30)(function(scene, fail)))
    assert 20_000 < seen.pttl("report") <= 30_000
    with pytest.raises(KeyError, match="mine") as caught:
        owner.do(client.single("stolen", min_hold=30)(function(scene, steal)))
    assert "was lost" in str(caught.value.__notes__)
    with pytest.raises(HoldLostError):
        owner.do(client.single("stolen")(function(scene, lambda: seen.delete("stolen"))))
    with pytest.raises(NotHeldError):
        owner.do(client.lock("report").release)


@each_face
def test_a_single_call_keeps_its_lock(scene: Stage) -> None:
    """It stays for `min_hold` and no longer, even if the function and its client ended before."""
    client, other, actor, ran = scene.client(), scene.client(), scene.actor(), list[int]()
    work = function(scene, lambda: ran.append(1))
    once, twice = client.single(NAME, min_hold=1)(work), other.single(NAME)(work)
    began = time.monotonic()
    actor.do(once)
    actor.do(twice)
    assert len(ran) == 1
    scene.close(client)
    lock = other.lock(NAME)
    assert actor.do(lock.acquire, timeout=10)
    assert time.monotonic() - began >= 1
    actor.do(lock.release)
    actor.do(twice)
    assert len(ran) == 2


@each_face
def test_single_ends_with_max_hold(scene: Stage, seen: redis.Redis) -> None:
    """A hold is renewed until `max_hold`, and no longer: then another call may run."""
    client, most = renews_soon(scene.client(lease=2)), 2.5
    leases: list[float] = []
    began = time.monotonic()

    def outstay() -> None:
        def ended() -> bool:
            leases.append(seen.pttl("report") / 1000)
            return leases[-1] <= 0

        wait_until(ended, 20, "the lease has ended")

    with pytest.raises(HoldLostError) as caught:
        scene.actor().do(client.single("report", max_hold=most)(function(scene, outstay)))
    assert time.monotonic() - began >= most - 0.01
    assert caught.value.reason == "expired"
    assert max(leases) <= 2
    assert len(leases) > 1


@each_face
@pytest.mark.parametrize("kind", ["locked", "single"])
def test_a_call_while_no_server_answers(
    scene: Stage, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A call raises, runs without its lock or is skipped, as is chosen; the latter are logged."""
    url = f"redis://127.0.0.1:{free_port()}"
    client, owner = scene.client(url, command_timeout=0.1, outage_timeout=0.2), scene.actor()
    ran: list[str] = []

    def work(word: str) -> str:
        ran.append(word)
        return word

    def decorated(choice: str) -> Any:
        return getattr(client, kind)("of:{word}", if_unreachable=choice)(function(scene, work))

    with caplog.at_level("WARNING", logger="interlock"):
        with pytest.raises(ServerUnavailableError):
            owner.do(decorated("raise"), "raise")
        assert owner.do(decorated("skip"), "skip") is None
        assert ran == []
        for _ in range(2):
            assert owner.do(decorated("run"), "run") == "run"
    assert ran == ["run", "run"]
    told = [each for each in caplog.records if getattr(each, "event", "") == "call.unreachable"]
    assert [getattr(each, "lock_name", "") for each in told] == ["of:skip", "of:run", "of:run"]
    if kind == "single":
        choice: Any = client.single("name", otherwise=7, if_unreachable="skip")
        assert owner.do(choice(function(scene, work)), "other") == 7


@cancelling
def test_a_cancelled_call_releases(scene: Stage, seen: redis.Redis) -> None:
    """A call that is cancelled releases its lock, or keeps it for `min_hold`."""
    client, owner, runs = scene.client(), scene.actor(), threading.Event()

    @client.locked("pay")
    @client.single("report", min_hold=30)
    async def work() -> None:
        runs.set()
        await scene.world.sleep(GIVE_UP)

    running = owner.start(work)
    # The server has both keys before the client knows of them.
    assert runs.wait(GIVE_UP)
    assert own_keys(seen) == {"pay", "report"}
    owner.cancel()
    with pytest.raises(CancelledHereError):
        running.result(PROMPT)
    wait_until(lambda: own_keys(seen) == {"report"}, 5, "it is released")


@cancelling
@pytest.mark.parametrize("min_hold", [0, 30])
def test_a_cancelled_call_ends_at_once_during_an_outage(
    troubled_scene: Stage, min_hold: int
) -> None:
    """A single call that is cancelled while the server is silent does not wait for an answer."""
    scene, owner, runs = troubled_scene, troubled_scene.actor(), threading.Event()
    client = scene.client(command_timeout=30, outage_timeout=60)

    @client.single("report", min_hold=min_hold)
    async def work() -> None:
        runs.set()
        await scene.world.sleep(GIVE_UP)

    running = owner.start(work)
    assert runs.wait(GIVE_UP)
    scene.place.on_request(command("EVALSHA"), drop_request)
    owner.cancel()
    with pytest.raises(CancelledHereError):
        running.result(PROMPT)
    scene.place.clear()


@each_face
def test_a_missing_right_is_no_outage(scene: Stage, seen: redis.Redis) -> None:
    """A call of a user who may not lock raises, whatever was chosen for outages."""
    seen.acl_setuser("few", enabled=True, nopass=True, commands=["+@connection"])
    client = scene.client(scene.place.urls[0].replace("redis://", "redis://few:x@"))
    work = client.locked("name", if_unreachable="run")(function(scene, lambda: None))
    with pytest.raises(ServerUnavailableError):
        scene.actor().do(work)
    scene.close(client)
    seen.acl_deluser("few")
