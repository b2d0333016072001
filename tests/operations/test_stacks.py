"""Stacks on request: what a holder is doing, told to operators who ask, in a bounded answer."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import until
from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon

import interlock.asyncio
from interlock import connect
from interlock._core.insight.card import ASK, CARD, LONGEST_STACK, STACKS

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess
    from typing import Literal

    import redis

    from interlock import Client

LEASE = 3.0
pytestmark = pytest.mark.usefixtures("patient")
OTHER = "00000000-0000-0000-0000-00000000cafe:1"
NONE = "  none: "


def busy(redis_client: redis.Redis) -> None:
    """Let another client hold the lock "busy" for good."""
    redis_client.hset("busy", OTHER, 1)
    redis_client.pexpire("busy", int(GIVE_UP * 1000))


def hears(redis_client: redis.Redis, client_id: str) -> bool:
    """Return whether the client listens for questions."""
    [(_, count)] = redis_client.pubsub_numsub(ASK.format(client_id))
    return bool(count)


def listens(redis_client: redis.Redis, client: Client) -> bool:
    """Return whether *client* listens for questions; let it wait in vain if it does not."""
    if not (heard := hears(redis_client, client.client_id)):
        assert not client.lock("busy").acquire(timeout=0.1)
    return heard


def writes(redis_client: redis.Redis, client: Client) -> bool:
    """Return whether the client has a card."""
    return bool(redis_client.exists(CARD.format(client.client_id)))


def ask(command: Callable[..., CompletedProcess[str]], name: str, call: str, *options: str) -> str:
    """Show the stacks of those who hold *name* until *call* is among them; return what was told.

    A new hold is not in the card yet, and a busy machine may not answer in time.
    """
    until = time.monotonic() + GIVE_UP
    while call not in (told := command("show", name, "--stacks", *options)).stdout:
        assert time.monotonic() < until, told
    assert (told.returncode, told.stderr) == (0, "")
    return told.stdout


def stuck_in_this_function(entered: threading.Event, done: threading.Event) -> None:
    """Do nothing for long."""
    entered.set()
    done.wait(GIVE_UP)


def test_a_thread_tells_where_it_is(
    redis_url: str, redis_client: redis.Redis, command: Callable[..., CompletedProcess[str]]
) -> None:
    """`interlock show --stacks` tells the calls of the holding thread, without any values."""
    busy(redis_client)
    entered, done = threading.Event(), threading.Event()

    def hold(client: Client) -> None:
        with client.lock("orders"):
            stuck_in_this_function(entered, done)

    with renews_soon(connect(redis_url)) as client:
        thread = threading.Thread(target=hold, args=(client,))
        thread.start()
        assert entered.wait(GIVE_UP)
        wait_until(lambda: listens(redis_client, client), GIVE_UP, "it listens")
        try:
            shown = ask(command, "orders", "stuck_in_this_function")
            told = json.loads(ask(command, "orders", "stuck_in_this_function", "--json"))
            card = CARD.format(client.client_id)

            def plain() -> bool:
                names: Any = redis_client.hkeys(card)
                return not any(name.startswith(b"s ") for name in names)

            wait_until(plain, GIVE_UP, "the next card is without stacks")
        finally:
            done.set()
            thread.join()
    _, _, stack = shown.partition("most recent call last:\n")
    calls = stack.splitlines()
    assert any("test_stacks.py" in call and "stuck_in_this_function" in call for call in calls)
    assert "in Event.wait" in calls[-2]
    [answer] = told["stacks"]
    assert any("stuck_in_this_function" in call for call in answer["calls"])


async def test_a_task_tells_where_it_is(
    redis_url: str, redis_client: redis.Redis, command: Callable[..., CompletedProcess[str]]
) -> None:
    """The stack of a holding task has the calls that it awaits, also if it blocks its loop."""
    busy(redis_client)

    async def deep() -> None:
        await asyncio.sleep(GIVE_UP)  # the stack shows this call

    async def hold(client: interlock.asyncio.Client) -> None:
        async with client.lock("orders"):
            await deep()

    blocked: list[str] = []
    async with renews_soon(interlock.asyncio.connect(redis_url)) as client:
        task = asyncio.create_task(hold(client))

        async def listens() -> bool:
            if not (heard := hears(redis_client, client.client_id)):
                assert not await client.lock("busy").acquire(timeout=0.1)
            return heard

        await until(listens, GIVE_UP, "it hears questions")
        shown = await asyncio.to_thread(ask, command, "orders", "in sleep")
        async with client.lock("blocking"):
            thread = threading.Thread(
                target=lambda: blocked.append(ask(command, "blocking", "in Thread.join"))
            )
            thread.start()
            thread.join()  # blocks the loop
        task.cancel()
    calls = shown.splitlines()
    assert "hold" in calls[-3]
    assert "deep" in calls[-2]
    assert "in sleep" in calls[-1]
    assert len(blocked) == 1


@pytest.mark.parametrize("card", [False, "names"])
def test_what_a_client_does_not_disclose_is_not_asked_for(
    card: Literal[False, "names"], redis_url: str, redis_client: redis.Redis
) -> None:
    """Without a whole card a client does not listen for questions."""
    busy(redis_client)
    with connect(redis_url, lease=LEASE, card=card) as client, connect(redis_url) as other:
        assert not client.lock("busy").acquire(timeout=0.1)
        with client.lock("orders"), other.lock("second"):
            if card:
                key = CARD.format(client.client_id)

                def twice() -> bool:
                    return int(redis_client.hget(key, "number") or 0) >= 2

                wait_until(twice, GIVE_UP, "it writes a second card")
            else:
                time.sleep(LEASE)  # in which a card would be written
            assert not hears(redis_client, client.client_id)


def test_who_does_not_listen_pays_nothing(
    redis_url: str, redis_client: redis.Redis, command: Callable[..., CompletedProcess[str]]
) -> None:
    """A client that never waited subscribes to nothing; the command says so at once."""
    with connect(redis_url, lease=LEASE) as client, client.lock("orders"):
        wait_until(lambda: writes(redis_client, client), GIVE_UP, "it writes a card")
        assert redis_client.pubsub_channels() == []
        shown = command("show", "orders", "--stacks")
        assert f"{NONE}its client does not listen" in shown.stdout
        assert f": py-spy dump --pid {os.getpid()}\n" in shown.stdout
        redis_client.hset("java", OTHER, 1)
        assert f"{NONE}its client wrote no card" in command("show", "java", "--stacks").stdout


def test_a_flood_of_questions_gets_few_bounded_answers(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """However often it is asked, a client answers seldom, and with a card of bounded size."""
    busy(redis_client)
    done = threading.Event()

    def hold(client: Client, number: int, depth: int = 400) -> None:
        if depth:
            hold(client, number, depth - 1)
            return
        with client.lock(f"orders:{number}"):
            done.wait(GIVE_UP)

    with connect(redis_url, lease=6.0) as client, ExitStack() as stack:
        threads = [threading.Thread(target=hold, args=(client, n)) for n in range(STACKS + 5)]
        for thread in threads:
            thread.start()
            _ = stack.callback(thread.join)
        _ = stack.callback(done.set)  # after a failure too, no thread outlives the test
        card, channel = CARD.format(client.client_id), ASK.format(client.client_id)

        def all_held() -> bool:
            names: Any = redis_client.hkeys(card)
            return sum(name.startswith(b"h ") for name in names) >= STACKS

        wait_until(all_held, GIVE_UP, "the card has all holds")
        wait_until(lambda: listens(redis_client, client), GIVE_UP, "it listens")
        number = int(redis_client.hget(card, "number") or 0)
        began, sizes = time.monotonic(), set[int]()
        while time.monotonic() < began + 3:
            with redis_client.pipeline(transaction=False) as pipe:
                for _ in range(100):
                    pipe.publish(channel, f"{client.client_id}:1")
                    pipe.publish(channel, b"\xff" * 100_000)
                pipe.execute()
            fields: Any = redis_client.hgetall(card)
            stacks = {name: value for name, value in fields.items() if name.startswith(b"s ")}
            assert all(len(value) <= LONGEST_STACK for value in stacks.values())
            sizes.add(len(stacks))
        written = int(redis_client.hget(card, "number") or 0) - number
        assert sizes <= {0, STACKS}
        assert STACKS in sizes
        assert written <= 4, "one answer in two seconds, and the card of the round"


def test_without_the_right_to_listen_locks_work_as_before(
    redis_url: str,
    redis_client: redis.Redis,
    narrow: Callable[..., str],
    command: Callable[..., CompletedProcess[str]],
) -> None:
    """A user who may not hear questions waits, holds and is woken; nobody gets its stacks."""
    busy(redis_client)
    url = narrow("~*", "resetchannels", "&redisson_*")
    with connect(url, lease=LEASE) as client, connect(redis_url) as other:
        assert not client.lock("busy").acquire(timeout=0.1)
        with client.lock("orders"):
            wait_until(lambda: writes(redis_client, client), GIVE_UP, "it writes a card")
            assert (
                f"{NONE}its client does not listen" in command("show", "orders", "--stacks").stdout
            )
            refused = command("show", "orders", "--stacks", url=url)
            assert f"{NONE}the question was refused: NOPERM" in refused.stdout
            lock = other.lock("woken")
            lock.acquire()
            threading.Timer(0.2, redis_client.delete, ["woken"]).start()
            lock_of_client = client.lock("woken")
            assert lock_of_client.acquire(timeout=GIVE_UP)
            lock_of_client.release()


def test_a_refused_question_leaves_the_queue_of_waiters_alone(
    redis_url: str, redis_client: redis.Redis, narrow: Callable[..., str]
) -> None:
    """A user who may not hear questions still stands in the server's queue when it waits."""
    busy(redis_client)
    channels = ("&redisson_*", "&interlock_waiting*", "&interlock_wake*")
    url = narrow("~*", "resetchannels", *channels)

    def take(name: str) -> None:
        with client.lock(name):
            pass

    with connect(url, lease=LEASE) as client, client.lock("orders"):
        threads = [threading.Thread(target=take, args=(name,)) for name in ("busy", "later")]
        threads[0].start()
        wait_until(lambda: refusals(redis_client), GIVE_UP, "the question was refused")
        redis_client.hset("later", OTHER, 1)
        threads[1].start()
        wait_until(lambda: redis_client.exists("interlock_queue:{later}"), GIVE_UP, "it queues")
        _ = redis_client.delete("busy", "later")
        for thread in threads:
            thread.join()


def refusals(redis_client: redis.Redis) -> bool:
    """Return whether somebody was refused the channel of questions."""
    log: Any = redis_client.acl_log()
    return any("interlock_ask" in str(entry["object"]) for entry in log)


def test_a_forged_stack_is_shown_harmlessly(
    redis_client: redis.Redis, command: Callable[..., CompletedProcess[str]]
) -> None:
    """What a forger writes as a stack reaches no terminal as it is, and a wrong one is doubtful."""
    client_id = OTHER.partition(":")[0]
    redis_client.hset("orders", OTHER, 1)
    about = json.dumps({"format": 1, "number": 1, "period": 10})
    card: dict[Any, Any] = {"client": about, "written": str(time.time() * 1000), "number": "1"}
    stack = json.dumps({"stack": ["\x1b[2J", 7, "x" * 3000]})
    redis_client.hset(CARD.format(client_id), mapping=card)
    with redis_client.pubsub() as listener:
        listener.subscribe(ASK.format(client_id))
        assert listener.get_message(timeout=GIVE_UP)

        def answer() -> None:
            assert listener.get_message(timeout=GIVE_UP), "a question came"
            forged = {"client": about.replace('"number": 1', '"number": 2'), "number": "2"}
            redis_client.hset(
                CARD.format(client_id), mapping={**forged, f"s {OTHER} orders": stack}
            )

        forger = threading.Thread(target=answer)
        forger.start()
        shown = command("show", "orders", "--stacks")
        forger.join()
        assert "  \\x1b[2J\n" in shown.stdout
        assert len(shown.stdout) < 1500
        # An old answer is none to the next question.
        assert "no answer within 4 s" in command("show", "orders", "--stacks").stdout
        redis_client.hset(CARD.format(client_id), f"s {OTHER} orders", '{"stack": 5}')
        shown = command("show", "orders", "--stacks")
        assert "no answer within 4 s; a stack is no list" in shown.stdout
