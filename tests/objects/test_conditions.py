"""What conditions promise, over each lock that they take: who is notified, and who holds the lock."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest
import redis
from tests.core.making import make
from tests.objects.acts import PROMPT, cancelling, each_face, enter, joins, of_kinds
from tests.objects.awaited import until
from tests.objects.interrupting import blows
from tests.objects.kinds import Kind, named
from tests.objects.stage import NAME, Stage
from tests.objects.worlds import Actor, CancelledHereError
from tests.support.child import Child
from tests.support.patience import GIVE_UP, wait_until

import interlock
import interlock.asyncio
from interlock import ClosedError, HoldLostError, NotHeldError

WITHOUT = {"fair", "group", "read", "multi", "together", "red"}
over_each = of_kinds(lambda kind: kind.name not in WITHOUT)
NEWS = "news"
WAITING = "interlock_condition:{name}:"


class Users:
    """Clients that use one condition of one lock."""

    def __init__(self, scene: Stage, kind: Kind | None = None, **options: Any) -> None:
        """Use a plain lock, unless told otherwise."""
        self.scene, self.kind = scene, kind or named("lock")
        self.options = options
        self.speaker, self.speaks = scene.actor(), self.condition()

    def clients(self) -> list[Any]:
        """Return as many new clients as the lock takes."""
        urls = self.scene.place.urls[: self.kind.servers]
        return [self.scene.client(url, **self.options) for url in urls]

    def condition(self, *clients: Any) -> Any:
        made = clients or self.clients()
        return made[0].condition(self.kind.make(made, NAME), name=NEWS)

    def waits(
        self, condition: Any = None, depth: int = 1, timeout: float = 60
    ) -> tuple[Actor, Any, Future[Any]]:
        condition = condition or self.condition()
        actor = self.scene.actor()
        for _ in range(depth):
            assert actor.do(condition.acquire)
        future = joins(self.scene, actor, condition.wait, timeout)
        return actor, condition, future

    def says(self, what: str, *args: Any) -> None:
        assert self.speaker.do(self.speaks.acquire, timeout=PROMPT)
        self.speaker.do(getattr(self.speaks, what), *args)
        self.speaker.do(self.speaks.release)


@pytest.mark.sample
@over_each
def test_a_wait_gives_the_lock_up_and_has_it_again(scene: Stage, kind: Kind) -> None:
    """Others may hold the lock meanwhile; at the end it is held as deep as before."""
    users, depth = Users(scene, kind), 2 if kind.reentrant else 1
    actor, condition, waiting = users.waits(depth=depth)
    assert users.speaker.do(users.speaks.acquire, timeout=PROMPT)
    users.speaker.do(users.speaks.notify)
    time.sleep(0.1)  # it wants the lock by now
    assert kind.shared or not waiting.done()
    users.speaker.do(users.speaks.release)
    assert waiting.result(GIVE_UP) is True
    assert actor.do(condition.lock.hold_count) == depth
    assert actor.do(lambda: condition.hold).valid
    for _ in range(depth):
        actor.do(condition.release)
    assert not actor.do(condition.lock.locked)


@pytest.mark.sample
def test_those_who_came_first_are_notified_first(scene: Stage) -> None:
    """A notification wakes one, of several clients in order of arrival; two wake two."""
    users = Users(scene)
    waiting = [users.waits() for _ in range(4)]
    for number, first, last in ((1, 0, 1), (2, 1, 3), (5, 3, 4)):
        users.says("notify", number)
        _go_on(waiting[first:last])
        assert not any(future.done() for _, _, future in waiting[last:])
    users.says("notify")  # nobody waits: nobody gets it
    actor, condition, _ = waiting[0]
    actor.do(condition.acquire)
    assert actor.do(condition.wait, 0.2) is False
    actor.do(condition.release)


def test_all_are_notified(scene: Stage) -> None:
    """`notify_all` wakes all who wait, of one client and of several; each has the lock in turn."""
    users = Users(scene)
    first = users.waits()
    waiting = [first, users.waits(first[1]), users.waits()]
    users.says("notify_all")
    _go_on(waiting)


def _go_on(notified: list[tuple[Actor, Any, Future[Any]]]) -> None:
    """Check that those have the lock one after another, in any order."""
    left = list(notified)
    while left:
        wait_until(lambda: any(future.done() for *_, future in left), PROMPT, "one goes on")
        [one] = [each for each in left if each[2].done()]
        assert one[2].result() is True
        one[0].do(one[1].release)
        left.remove(one)


def test_who_is_notified_has_the_lock_before_who_comes_later(scene: Stage) -> None:
    """A notified waiter stands in the lock's queue from its notification on."""
    users = Users(scene)
    waiting = [users.waits() for _ in range(2)]
    assert users.speaker.do(users.speaks.acquire)
    for _ in waiting:
        users.speaker.do(users.speaks.notify)
        scene.place.rests(NAME)
    newcomer, lock = scene.actor(), users.condition()
    late = joins(scene, newcomer, lock.acquire)
    users.speaker.do(users.speaks.release)
    for actor, condition, future in waiting:
        assert future.result(PROMPT) is True
        assert not late.done()
        actor.do(condition.release)
    assert late.result(PROMPT)


@over_each
def test_a_wait_in_vain_has_the_lock_again(scene: Stage, kind: Kind) -> None:
    """When the time is up it returns False with the lock held, and leaves no place behind."""
    users = Users(scene, kind)
    actor, condition = scene.actor(), users.condition()
    actor.do(condition.acquire)
    assert actor.do(condition.wait, 0.2) is False
    assert actor.do(condition.lock.owned)
    assert actor.do(condition.wait_for, lambda: 0, 0.1) == 0
    assert actor.do(condition.lock.owned)
    actor.do(condition.release)
    if kind.waits:
        other, theirs, waiting = users.waits()
        users.says("notify")
        assert waiting.result(PROMPT) is True, "the notification is the present waiter's"
        other.do(theirs.release)


def test_a_predicate_is_waited_for(scene: Stage) -> None:
    """`wait_for` asks with the lock held, after each notification, until the answer is true."""
    users, answers, actor = Users(scene), [0, "", "news"], scene.actor()
    condition = users.condition()
    actor.do(condition.acquire)
    waiting = actor.start(condition.wait_for, lambda: answers.pop(0))
    for left in (2, 1):
        wait_until(lambda n=left: len(answers) == n, 10, "it asks")
        scene.place.rests(NAME)
        users.says("notify")
    assert waiting.result(PROMPT) == "news"
    assert actor.do(condition.lock.owned)


def test_who_does_not_hold_the_lock_is_refused(scene: Stage) -> None:
    """Waiting and notifying need the lock, and who has lost it is told."""
    users, owner, other = Users(scene), scene.actor(), scene.actor()
    condition = users.condition()
    owner.do(condition.acquire)
    calls = (condition.wait, condition.notify, condition.notify_all)
    for call in calls:
        with pytest.raises(NotHeldError):
            other.do(call)
    assert owner.do(condition.lock.owned)
    owner.do(condition.release)
    owner.do(condition.acquire, lease=0.3)
    wait_until(owner.do(lambda: condition.hold).lost.is_set, 5, "its lease has ended")
    for call in calls:
        with pytest.raises(HoldLostError):
            owner.do(call)
    assert not scene.left()


@cancelling
def test_a_cancelled_waiter_passes_its_notification_on(scene: Stage) -> None:
    """It has the lock when it is told, and the next waiter is notified instead."""
    users = Users(scene)
    first, condition, cancelled = users.waits()
    second, theirs, waiting = users.waits()
    assert users.speaker.do(users.speaks.acquire)
    users.speaker.do(users.speaks.notify)
    first.cancel()
    time.sleep(0.1)  # the cancelled one asks for the lock meanwhile
    users.speaker.do(users.speaks.release)
    wait_until(lambda: cancelled.done() or waiting.done(), PROMPT, "one has the lock")
    both = [(first, condition, cancelled), (second, theirs, waiting)]
    for actor, made, future in sorted(both, key=lambda each: not each[2].done()):
        error = future.exception(PROMPT)
        assert isinstance(error, CancelledHereError) is (future is cancelled)
        assert actor.do(made.lock.owned)
        actor.do(made.release)
    assert waiting.result() is True
    assert not second.do(theirs.lock.locked)


def test_closing_tells_who_waits(scene: Stage) -> None:
    """A waiter whose client is closed gets ClosedError, and swallows no notification."""
    users = Users(scene)
    clients = users.clients()
    _, _, ended = users.waits(users.condition(*clients))
    actor, condition, waiting = users.waits()
    scene.close(*clients)
    with pytest.raises(ClosedError):
        ended.result(PROMPT)
    users.says("notify")
    assert waiting.result(PROMPT) is True
    actor.do(condition.release)


@each_face
def test_a_dead_waiter_swallows_nothing(scene: Stage) -> None:
    """When the first waiter dies as it is notified, the next one goes on within its lease."""
    users = Users(scene, lease=3)
    code = """
        client = interlock.connect(url, lease=3)
        condition = client.condition("the name", name="news")
        condition.acquire()
        say("waits")
        condition.wait()
    """
    with Child(code, scene.place.urls[0]) as child:
        assert child.hear() == "waits"
        scene.place.rests(NAME)
        actor, condition, waiting = users.waits()
        assert users.speaker.do(users.speaks.acquire)
        child.kill()
        users.speaker.do(users.speaks.notify)
        users.speaker.do(users.speaks.release)
        assert waiting.result(3 + PROMPT) is True
        actor.do(condition.release)


def test_conditions_of_other_names_are_others(scene: Stage) -> None:
    """A notification wakes nobody who waits for another condition of the lock, or of another."""
    users, client = Users(scene), scene.client()
    others = [client.condition(NAME), client.condition("another lock", name=NEWS)]
    waiter, condition, mine = users.waits()
    theirs = []
    for other in others:
        actor = scene.actor()
        actor.do(other.acquire)
        theirs.append(actor.start(other.wait, 60))
        scene.place.rests(NAME)
    users.says("notify_all")
    assert mine.result(PROMPT) is True
    waiter.do(condition.release)
    scene.place.rests(NAME)
    assert not any(each.done() for each in theirs)


def test_the_hold_after_a_wait_is_another_one(scene: Stage) -> None:
    """A wait ends the former hold; a block releases the present one, and hears of its loss."""
    actor, client = scene.actor(), scene.client(lease=3)
    told: list[str] = []
    condition = client.condition(client.fenced_lock(NAME))
    lock = condition.lock
    leave = enter(scene, actor, lock)
    hold = actor.do(lambda: condition.hold)
    actor.do(hold.on_lost, lambda: told.append("lost"))
    assert actor.do(condition.wait, 0.1) is False
    assert not hold.valid
    assert actor.do(lambda: condition.hold).token > hold.token
    actor.do(leave)
    assert not actor.do(lock.locked)
    assert told == []
    leave = enter(scene, actor, lock)
    actor.do(actor.do(lambda: condition.hold).on_lost, lambda: told.append("lost"))
    assert actor.do(condition.wait, 0.1) is False
    assert scene.actor().do(scene.client().fenced_lock(NAME).force_release)
    wait_until(lambda: told == ["lost"], 10, "the callback hears of it")
    with pytest.raises(HoldLostError):
        actor.do(leave)


@pytest.mark.parametrize("kind", ["lock", "spin_lock", "write"])
async def test_a_block_of_the_lock_is_the_conditions(redis_url: str, kind: str) -> None:
    """Who holds the lock, by whatever object, waits and notifies; blocks end what they began."""
    async with interlock.asyncio.connect(redis_url) as client:
        lock, same = make(client, kind, "name"), make(client, kind, "name")
        condition = client.condition(same)
        async with lock as outer:
            await condition.notify()
            async with condition, lock.trying() as inner:
                assert inner
                assert await condition.wait(0.05) is False
                assert await lock.hold_count() == 3
                assert not outer
            assert condition.hold
            assert condition.hold.depth == 1
        assert not await lock.locked()
        await lock.acquire()
        async with lock.hold or pytest.fail("it is held"):
            assert await condition.wait(0.05) is False
        assert not await lock.locked()


@each_face
def test_messages_are_not_needed(troubled_scene: Stage) -> None:
    """Without any message a waiter finds out by itself."""
    troubled_scene.place.lose_messages()
    users = Users(troubled_scene)
    actor, condition, waiting = users.waits()
    users.says("notify")
    assert waiting.result(20) is True
    assert actor.do(condition.lock.owned)


@pytest.mark.usefixtures("by_message")
async def test_an_interrupted_wait_tells_the_next_holder(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """Nobody reads the answer that names the next one of its client, which starts all the same."""
    async with interlock.asyncio.connect(redis_url) as client:
        lock = client.lock("name")
        condition, begins = client.condition(lock), asyncio.Event()

        async def wait() -> None:
            async with lock:
                await begins.wait()
                await condition.wait()

        async def come_next() -> None:
            async with lock:
                pass

        async with lock:
            assert not await condition.wait(0.01)  # the server knows the script now
        waiting = asyncio.create_task(wait())
        await until(lambda: redis_client.exists("name"), 20, "it holds")
        coming = asyncio.create_task(come_next())
        await until(lambda: redis_client.zcard("interlock_queue:{name}"), 20, "another one waits")
        begins.set()
        while not redis_client.zcard(WAITING):  # noqa: ASYNC110 - the loop shall not read the answer
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait_for(coming, 2.5)  # its grant ends after 3 s
        with pytest.raises(asyncio.CancelledError):
            await waiting


@each_face
def test_a_lock_that_cannot_be_had_again(troubled_scene: Stage) -> None:
    """When the server is away for longer than an outage may take, HoldLostError is raised."""
    users = Users(troubled_scene, command_timeout=1, outage_timeout=1)
    _, _, waiting = users.waits()
    with troubled_scene.place.unreachable(), pytest.raises(HoldLostError) as caught:
        waiting.result(30)
    assert isinstance(caught.value.__cause__, interlock.InterlockError)


def test_a_lock_of_the_other_face_is_refused(redis_url: str) -> None:
    """A condition takes a name or a lock of its own face, and nothing else."""
    with interlock.connect(redis_url) as client:
        other = interlock.asyncio.connect(redis_url)
        for wrong in (other.lock("a"), client.semaphore("a"), threading.Lock(), None, 5):
            with pytest.raises(TypeError, match="condition"):
                client.condition(wrong)  # type: ignore[arg-type]
        lock = client.fenced_lock("a")
        assert client.condition(lock).lock is lock
        assert client.condition(lock, name="news").name == "a:news"
        assert repr(client.condition("a")) == "<Condition 'a' of Lock 'a'>"


@pytest.mark.filterwarnings("ignore:3 members on 1 servers:UserWarning")
def test_a_lock_without_conditions_is_refused(redis_url: str) -> None:
    """The message says what was wanted and found, and what to do."""
    with interlock.connect(redis_url) as client:
        plain = [client.lock(name) for name in "abc"]
        group = client.group_lock("the name", ["one"])
        both, most = client.multi_lock(*plain), client.red_lock(*plain)
        reads = client.read_write_lock("the name").read
        for lock in (client.fair_lock("the name"), group, reads, both, most):
            with pytest.raises(interlock.ConfigError) as caught:
                client.condition(lock)
            told = str(caught.value)
            assert "needs a plain, fenced, spin or write lock, got" in told
            assert f"{lock.name!r}: make it of a client.lock" in told


@pytest.mark.rest
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_ctrl_c_anywhere_in_a_wait(redis_url: str, redis_client: redis.Redis) -> None:
    """Wherever Ctrl-C strikes in a wait, the lock is held then, and nobody waits any more."""
    with interlock.connect(redis_url, lease=8) as client:
        condition = client.condition("name")
        for blow in blows(100):
            condition.acquire()
            with suppress(KeyboardInterrupt), blow:
                condition.wait(0.001)
            assert condition.lock.owned(), f"{blow} lost the lock"
            assert condition.lock.hold_count() == 1, f"{blow} lost the depth"
            condition.release()
            assert not client.holds(), f"{blow} left a hold"
            wait_until(lambda: not redis_client.exists(WAITING), 5, f"{blow} left a waiter")
