"""A server that refuses what a service refuses: the scripts pass, and the objects work."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import take_turn, until
from tests.support.doings import DOINGS, two_clients
from tests.support.holding import takes_turn
from tests.support.model.redis_model import RedisModel
from tests.support.model.served import ModelServer
from tests.support.model.strict import MODES, Rules, broken_rules
from tests.support.patience import wait_until
from tests.support.proxy import FaultProxy, command, drop_reply, drop_request
from tests.support.scripts import SENT

import interlock
import interlock.asyncio
from interlock._core.model.calls import Eval, Script
from interlock._core.scripts.locks import FENCED_ACQUIRE
from interlock._links.cluster import Cluster
from interlock._links.connection import Connection
from interlock._links.endpoint import Endpoint
from interlock._links.replies import refusal
from interlock.errors import ServerUnavailableError
from interlock.inspection import service

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.proxy import Action


TEXTS = SENT | {stem: {"": service.load(stem).text} for stem in ("lock_info", "card_read")}


@pytest.mark.parametrize("stem", TEXTS)
def test_each_call_in_a_script_is_literal(stem: str) -> None:
    """Every command is a literal, and every key ``KEYS[n]``, in all that a server is sent."""
    for text in TEXTS[stem].values():
        assert broken_rules(text) == []


SOON = 10.0
LONG = 250.0
"""Seconds: nobody looks by himself during the test."""


@pytest.mark.parametrize("mode", [None, *MODES])
def test_every_object_does_everything(mode: str | None, patient: None) -> None:
    """On each service, each object does everything that it can, while two clients contend.

    So it does on the model without a mode.
    """

    def do(kind: str) -> None:
        with two_clients(fake.url) as (client, other):
            DOINGS[kind](client, other)

    with ModelServer(strict=mode) as fake, ThreadPoolExecutor(len(DOINGS)) as threads:
        for done in [threads.submit(do, kind) for kind in DOINGS]:
            done.result()


@pytest.mark.parametrize(
    ("mode", "unit", "source"),
    [
        (None, 2**32, b"epoch"),
        ("kvrocks", 2**32, b"epoch"),
        ("dragonfly", 2**32, b"clock"),
        ("aiven", 2**32, b"clock"),
        ("serverless", 2**32, b"epoch"),
        ("bare", 2**32, b"counter"),
        (None, 0, b"counter"),
    ],
)
def test_where_a_token_comes_from(mode: str | None, unit: int, source: bytes) -> None:
    """A script tells what its token follows; a server that refuses CLUSTER still gives one."""
    model = RedisModel(now=lambda: 1e9, rules=None if mode is None else Rules(mode))
    call = Eval(FENCED_ACQUIRE, ("lock", "token"), (30_000, "me:1", 1, 0, unit))
    command = ("EVAL", call.script.text, len(call.keys), *call.keys, *call.args)
    floor = {b"epoch": 2 * 2**32, b"clock": 10**15, b"counter": 0}[source]
    assert model.execute(*command) == [1, floor + 1, source]
    assert model.execute(*command) == [1, floor + 1, source], "sent again"


@pytest.mark.parametrize(
    ("mode", "text", "says"),
    [
        ("tair", "local k = KEYS[1] return redis.call('get', k)", "set script_check_enable to 0"),
        ("dragonfly", "KEYS[1] = 'b' return redis.call('get', KEYS[1])", "--lock_on_hashtags"),
        ("upstash", "KEYS[1] = 'b' return redis.call('get', KEYS[1])", "undeclared keys"),
        (
            "kvrocks",
            "return redis.call('pubsub', 'numsub', 'a')",
            "does not permit scripts to call",
        ),
        ("garnet", "return redis.call('spublish', 'a', 'b')", "does not permit scripts to call"),
        ("serverless", "return redis.call('time')", "does not permit scripts to call"),
        ("aiven", "return redis.call('cluster', 'info')", "does not permit scripts to call"),
    ],
)
def test_a_refused_script_is_told_with_the_rule_and_the_setting(
    mode: str, text: str, says: str
) -> None:
    """A service that refuses a script gets an error that says why, and what to set."""
    call: Eval[object] = Eval(Script("broken", text, lambda reply: reply), ("a",), ())
    with ModelServer(strict=mode) as fake:
        connection = Connection(Endpoint.from_url(fake.url), SOON)
        with pytest.raises(ServerUnavailableError, match=re.escape(says)):
            connection.eval(call, SOON)
        connection.close()


@pytest.mark.parametrize(
    "error", ["ERR unknown command 'EVALSHA'", "ERR Lua scripting support disabled"]
)
def test_a_service_without_scripts_is_told(error: str) -> None:
    """Where there are no scripts at all, the error names the services and what to take."""
    assert "start Garnet with --lua, or take an OCI Cache" in str(refusal(error, None, "db:6379"))


@pytest.mark.parametrize(
    "kinds", [("lock", "write"), ("fair_lock", "fair_lock"), ("lock", "fair_lock")], ids="-".join
)
def test_waiters_poll_where_there_are_no_messages(
    kinds: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Without PUBLISH in scripts or for clients a release works, waiters look often, and log it.

    So does one that began to wait before the server had refused. A client logs it once.
    """
    options: Any = {"lease": LONG}
    with ModelServer(strict="silent") as fake, ExitStack() as stack:
        ours, theirs = (
            stack.enter_context(interlock.connect(fake.url, **options)) for _ in range(2)
        )
        for name, kind in zip(("one", "two"), kinds, strict=True):
            lock = made(kind, ours, name)
            lock.acquire()
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(take_turn, made(kind, theirs, name), SOON)
                wait_until(lambda: "refuses PUBLISH" in caplog.text, SOON, "it was told")
                wait_until(lambda: polls(theirs), SOON, "it polls")
                lock.release()
                assert waiting.result(SOON)
    lacks = [record for record in caplog.records if "PUBLISH" in record.getMessage()]
    assert [record.__dict__["event"] for record in lacks] == ["messages.refused"]


def made(kind: str, client: interlock.Client, name: str = "it") -> Any:
    """Return the object of *kind* with *name*; of a read/write lock the writer's."""
    if kind == "semaphore":
        return client.semaphore(name, 1)
    if kind == "write":
        return client.read_write_lock(name).write
    return getattr(client, kind)(name)


def polls(client: interlock.Client) -> bool:
    """Return whether those who wait know that no messages come."""
    places = client._driver.session.queues.places
    return any(hold.place is not None and hold.place.line.deaf for hold in list(places.values()))


def waits(client: interlock.Client | interlock.asyncio.Client) -> Callable[[], bool]:
    """Return a function that tells whether a thread of *client* waits for a message."""
    places = client._driver.session.queues.places
    return lambda: any(hold.place.line.heard for hold in list(places.values()))


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "write", "semaphore"])
def test_the_client_sends_what_scripts_may_not(kind: str) -> None:
    """Without PUBLISH in scripts, the releasing client wakes the waiter."""
    options: Any = {"lease": LONG}
    with ModelServer(strict="bare") as fake, ExitStack() as stack:
        ours, theirs = (
            stack.enter_context(interlock.connect(fake.url, **options)) for _ in range(2)
        )
        made(kind, ours).acquire()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(take_turn, made(kind, theirs), LONG)
            wait_until(waits(theirs), SOON, "it hears")
            made(kind, ours).release()
            assert waiting.result(SOON)


async def test_a_task_sends_what_scripts_may_not() -> None:
    """The asyncio face sends the messages too, and a closing client does for what it releases."""
    options: Any = {"lease": LONG}
    with ModelServer(strict="bare") as fake:
        async with interlock.asyncio.connect(fake.url, **options) as theirs:
            for release in (True, False):
                async with interlock.asyncio.connect(fake.url, **options) as ours:
                    lock = ours.lock("it")
                    await lock.acquire()
                    waiting = asyncio.create_task(takes_turn(theirs.lock("it")))
                    await until(waits(theirs), SOON, "it hears")
                    if release:
                        await lock.release()
                assert await asyncio.wait_for(waiting, SOON)


def address_of(fake: ModelServer) -> tuple[str, int]:
    """Return host and port of *fake*."""
    return Endpoint.from_url(fake.url).address


def released_while_messages_break(fake: ModelServer, ours: str, *, close: bool) -> None:
    """Release a lock of a client of the URL *ours*, for which a waiter of another client waits."""
    options: Any = {"lease": LONG}
    with (
        interlock.connect(ours, **options) as holder,
        interlock.connect(fake.url, **options) as theirs,
        ThreadPoolExecutor(1) as pool,
    ):
        lock = holder.lock("it")
        lock.acquire()
        waiting = pool.submit(take_turn, theirs.lock("it"), LONG)
        wait_until(waits(theirs), SOON, "it hears")
        if close:
            holder.close()
        else:
            lock.release()
        assert waiting.result(SOON)


@pytest.mark.parametrize("fault", [drop_request, drop_reply])
@pytest.mark.parametrize("close", [False, True])
def test_a_message_outlives_its_connection(fault: Action, *, close: bool) -> None:
    """A client that loses its connection while it sends a message sends it by another one."""
    with ModelServer(strict="bare") as fake, FaultProxy(address_of(fake)) as proxy:
        proxy.on_request(command("PUBLISH", nth=1), fault)
        released_while_messages_break(fake, proxy.url(), close=close)
        assert proxy.fired
        assert proxy.commands["PUBLISH"] == 2


@pytest.mark.parametrize(("mode", "sharded"), [("garnet", False), ("kvrocks", False), (None, True)])
def test_a_cluster_is_asked_for_sharded_messages(mode: str | None, *, sharded: bool) -> None:
    """Sharded channels are used where scripts may send to them."""
    with ModelServer(strict=mode) as fake:
        cluster = Cluster([Endpoint.from_url(fake.url)])
        assert cluster.has_sharded_channels() is sharded
