"""Decorators: each call of a function holds a lock, or is skipped."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import redis
from tests.objects.awaited import Face, until
from tests.support.address import free_port
from tests.support.cards import own_keys
from tests.support.patience import GIVE_UP, wait_until
from tests.support.proxy import FaultProxy, command, drop_request
from tests.support.renewal import renews_soon

import interlock
import interlock.asyncio
from interlock import AcquireTimeoutError, ConfigError, NotHeldError, ServerUnavailableError


@dataclass
class Order:
    """What has a number."""

    id: int
    _secret: str = "s"


class Side:
    """One face, with functions of its kind."""

    def __init__(self, face: Face, client: Any, url: str) -> None:
        self.face = face
        self.client = client
        self.url = url

    def function(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Return *plain* as a function of this face."""
        if not self.face.is_async:
            return plain

        @functools.wraps(plain)
        async def function(*args: Any, **kwargs: Any) -> Any:
            return plain(*args, **kwargs)

        return function

    async def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call *function* where this face is used: in a task, or in a thread."""
        if self.face.is_async:
            return await function(*args, **kwargs)
        return await asyncio.to_thread(function, *args, **kwargs)

    async def enter(self, block: Any) -> Any:
        """Enter *block* by hand."""
        return await block.__aenter__() if self.face.is_async else block.__enter__()


@pytest.fixture
async def side(face: Face, redis_url: str) -> AsyncIterator[Side]:
    """Give each face in turn."""
    client = face.module.connect(redis_url)
    yield Side(face, client, redis_url)
    if inspect.isawaitable(closed := client.close()):
        await closed


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
async def test_the_name_of_a_call(
    side: Side, redis_client: redis.Redis, template: str, name: str
) -> None:
    """A call holds the lock that its arguments and defaults name, however they are passed."""

    def pay(order_id: int, order: Order, rest: dict[str, str], where: str = "here") -> set[str]:
        return own_keys(redis_client)

    decorated = side.client.locked(template)(side.function(pay))
    assert await side.call(decorated, 7, Order(8), rest={"key": "v"}) == {name}
    assert await side.call(decorated, rest={"key": "v"}, order=Order(8), order_id=7) == {name}
    assert own_keys(redis_client) == set()
    with pytest.raises(TypeError, match="order"):
        await side.call(decorated, 7)


async def test_it_decorates_methods_and_keeps_what_they_are_called(
    side: Side, redis_client: redis.Redis
) -> None:
    """A decorated method takes names from ``self``; name, docstring and signature stay."""

    class Account:
        number = 5

        def _pay(self, order_id: int) -> set[str]:
            """Pay."""
            return own_keys(redis_client)

        pay = side.client.locked("{self.number}:{order_id}")(side.function(_pay))

    assert await side.call(Account().pay, 7) == {"5:7"}
    assert (Account.pay.__name__, Account.pay.__doc__) == ("_pay", "Pay.")
    assert list(inspect.signature(Account.pay).parameters) == ["self", "order_id"]
    assert inspect.iscoroutinefunction(Account.pay) == side.face.is_async


async def test_a_call_waits_as_long_as_told(side: Side, redis_client: redis.Redis) -> None:
    """A call that times out raises without running; a call that raises releases the lock."""
    ran: list[int] = []
    decorated = side.client.locked("pay", timeout=timedelta(milliseconds=50))(
        side.function(ran.append)
    )
    redis_client.hset("pay", "java:1", 1)
    with pytest.raises(AcquireTimeoutError, match="java:1"):
        await side.call(decorated, 1)
    redis_client.delete("pay")
    fails = side.client.locked("pay")(side.function(lambda: ran.index(1)))
    with pytest.raises(ValueError, match="1 is not in list"):
        await side.call(fails)
    assert own_keys(redis_client) == set()
    assert ran == []


async def test_locked_in_blocks_and_exit_stacks(redis_url: str, redis_client: redis.Redis) -> None:
    """A block or exit stack over `locked` holds the lock until any task or thread leaves it."""
    async with interlock.asyncio.connect(redis_url) as client:
        guard = client.locked("pay")
        async with guard as hold:
            assert (hold.name, own_keys(redis_client)) == ("pay", {"pay"})
        assert own_keys(redis_client) == set()
        stack = contextlib.AsyncExitStack()
        await stack.enter_async_context(guard)
        assert own_keys(redis_client) == {"pay"}
        await asyncio.create_task(stack.aclose())
        assert own_keys(redis_client) == set()

    def work() -> None:
        with interlock.connect(redis_url) as client:
            guard, stack = client.locked("pay"), contextlib.ExitStack()
            with guard as hold:
                assert (hold.name, own_keys(redis_client)) == ("pay", {"pay"})
            assert own_keys(redis_client) == set()
            stack.enter_context(guard)
            assert own_keys(redis_client) == {"pay"}
            with ThreadPoolExecutor(1) as other:
                other.submit(stack.close).result()
            assert own_keys(redis_client) == set()

    await asyncio.to_thread(work)


def test_functions_that_cannot_be(side: Side) -> None:
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
        [plain, len, functools.partial(plain)]
        if side.face.is_async
        else [coroutine, functools.partial(coroutine), Called(), staticmethod(coroutine)]
    )
    for function in wrong:
        for decorator in (side.client.locked("name"), side.client.single("name")):
            with pytest.raises(TypeError, match=r"generator|coroutine|only functions"):
                decorator(function)


@pytest.mark.parametrize("given", [{"timeout": -3}, {"lease": 0}])
def test_durations_that_cannot_be(side: Side, given: dict[str, Any]) -> None:
    """A duration that cannot be is refused when the decorator is made."""
    with pytest.raises(ConfigError):
        side.client.locked("name", **given)
    with pytest.raises(ConfigError):
        side.client.single("name", min_hold=-1)
    with pytest.raises(ConfigError, match="max_hold must be 60 to"):
        side.client.single("name", min_hold=60, max_hold=timedelta(seconds=30))
    with pytest.raises(ConfigError, match=r"max_hold must be 0\.01 to"):
        side.client.single("name", max_hold=0)
    for make in (side.client.locked, side.client.single):
        with pytest.raises(ConfigError, match="if_unreachable must be"):
            make("name", if_unreachable="wait")


async def test_single_skips_what_another_does(side: Side, redis_client: redis.Redis) -> None:
    """A call is skipped while the lock is held, even by its own caller, and runs afterwards."""

    def work() -> str:
        assert own_keys(redis_client) == {"report"}
        return "ran"

    report = side.client.single("report", otherwise="skipped")(side.function(work))
    redis_client.hset("report", "java:1", 1)
    assert await side.call(report) == "skipped"
    redis_client.delete("report")
    assert await side.call(report) == "ran"
    assert own_keys(redis_client) == set()
    nested = side.client.single("report")(report)
    assert await side.call(nested) == "skipped"
    assert await side.call(side.client.single("report")(nested)) is None


async def test_single_keeps_the_lock_of_a_call_that_fails(
    side: Side, redis_client: redis.Redis
) -> None:
    """A function that raises leaves the lock as one that returns does; another error is a note."""

    def fail() -> None:
        raise KeyError("mine")

    def steal() -> None:
        redis_client.delete("stolen")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await side.call(side.client.single("report", min_hold=30)(side.function(fail)))
    assert 29_000 < redis_client.pttl("report") <= 30_000
    with pytest.raises(KeyError, match="mine") as caught:
        await side.call(side.client.single("stolen", min_hold=30)(side.function(steal)))
    assert "was lost" in str(caught.value.__notes__)
    with pytest.raises(interlock.HoldLostError):
        await side.call(
            side.client.single("stolen")(side.function(lambda: redis_client.delete("stolen")))
        )
    with pytest.raises(NotHeldError):
        await side.call(side.client.lock("report").release)


async def test_single_ends_with_max_hold(side: Side, redis_client: redis.Redis) -> None:
    """A hold is renewed until `max_hold`, and no longer: then another call may run."""
    client, most = renews_soon(side.face.module.connect(side.url, lease=2)), 2.5
    leases: list[float] = []
    began = time.monotonic()

    def outstay() -> None:
        def ended() -> bool:
            leases.append(redis_client.pttl("report") / 1000)
            return leases[-1] <= 0

        wait_until(ended, 20, "the lease has ended")

    report = client.single("report", max_hold=most)(side.function(outstay))
    with pytest.raises(interlock.HoldLostError) as caught:
        await side.call(report)
    assert time.monotonic() - began >= most - 0.01
    assert caught.value.reason == "expired"
    assert max(leases) <= 2
    assert len(leases) > 1
    if inspect.isawaitable(closed := client.close()):
        await closed


@pytest.mark.parametrize("kind", ["locked", "single"])
async def test_a_call_while_no_server_answers(
    face: Face, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A call raises, runs without its lock or is skipped, as is chosen; the latter are logged."""
    url = f"redis://127.0.0.1:{free_port()}"
    client = face.module.connect(url, command_timeout=0.1, outage_timeout=0.2)
    side, ran = Side(face, client, url), list[str]()

    def work(word: str) -> str:
        ran.append(word)
        return word

    def decorated(choice: str) -> Any:
        return getattr(client, kind)("of:{word}", if_unreachable=choice)(side.function(work))

    with caplog.at_level("WARNING", logger="interlock"):
        with pytest.raises(ServerUnavailableError):
            await side.call(decorated("raise"), "raise")
        assert await side.call(decorated("skip"), "skip") is None
        assert ran == []
        for _ in range(2):
            assert await side.call(decorated("run"), "run") == "run"
    assert ran == ["run", "run"]
    told = [each for each in caplog.records if getattr(each, "event", "") == "call.unreachable"]
    assert [getattr(each, "lock_name", "") for each in told] == ["of:skip", "of:run", "of:run"]
    if kind == "single":
        choice: Any = client.single("name", otherwise=7, if_unreachable="skip")
        assert await side.call(choice(side.function(work)), "other") == 7
    else:
        block = client.locked("name", if_unreachable="run")
        with pytest.raises(ConfigError, match="for calls"):
            await side.enter(block)
    if inspect.isawaitable(closed := client.close()):
        await closed


async def test_a_cancelled_call_releases(redis_url: str, redis_client: redis.Redis) -> None:
    """A call that is cancelled releases its lock, or keeps it for `min_hold`."""
    async with interlock.asyncio.connect(redis_url) as client:
        runs = asyncio.Event()

        @client.locked("pay")
        @client.single("report", min_hold=30)
        async def work() -> None:
            runs.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(work())
        # The server has both keys before the client knows of them.
        await asyncio.wait_for(runs.wait(), GIVE_UP)
        assert own_keys(redis_client) == {"pay", "report"}
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: own_keys(redis_client) == {"report"}, 5, "it is released")


@pytest.mark.parametrize("min_hold", [0, 30])
async def test_a_cancelled_call_ends_at_once_during_an_outage(
    proxy: FaultProxy, min_hold: int
) -> None:
    """A single call that is cancelled while the server is silent does not wait for an answer."""
    options: Any = {"command_timeout": 5, "outage_timeout": 20}
    async with interlock.asyncio.connect(proxy.url(), **options) as client:
        runs = asyncio.Event()

        @client.single("report", min_hold=min_hold)
        async def work() -> None:
            runs.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.wait_for(runs.wait(), GIVE_UP)
        proxy.on_request(command("EVALSHA"), drop_request)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 4
        proxy.clear_rules()


async def test_a_missing_right_is_no_outage(side: Side, redis_client: redis.Redis) -> None:
    """A call of a user who may not lock raises, whatever was chosen for outages."""
    redis_client.acl_setuser("few", enabled=True, nopass=True, commands=["+@connection"])
    client = side.face.module.connect(side.url.replace("redis://", "redis://few:x@"))
    work = client.locked("name", if_unreachable="run")(side.function(lambda: None))
    with pytest.raises(ServerUnavailableError):
        await side.call(work)
    if inspect.isawaitable(closed := client.close()):
        await closed
    redis_client.acl_deluser("few")
