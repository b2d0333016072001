"""What no face can see: who closes a hold, garbage, grants, and strikes."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.strikes import strike
from tests.support.patience import wait_until

import interlock
import interlock.asyncio
from interlock._core.locks.base import Lock
from interlock._core.model.hold import ENDED, OPEN, Hold, valid_until
from interlock._core.queue.places import DEAF, POLL, Line, Place, Queues
from interlock._core.scripts.replies import LOOK, News, Refusal
from interlock._core.upkeep.garbage import Garbage
from interlock._core.upkeep.session import Session
from interlock._core.upkeep.watchdog import Watchdog
from interlock._drivers.flow import current_owner
from interlock.errors import NotHeldError, ServerUnavailableError
from interlock.options import Options
from interlock.sync.lock import adopt

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis


class _Owner:
    """An owner that lives."""

    def ended(self) -> bool:
        return False


class _Session:
    """As much of a session as the passive parts ask for, and a lock."""

    client_id = "c"
    key = channel = standing = place = "the name"
    due, sides, in_turn = 0.0, False, False
    line, renewed_with = Line, ""
    renewing, _renewing, _keep = Lock.renewing, Lock._renewing, Lock._keep
    options = Options(card=False)
    outside = SimpleNamespace(tell_loss=lambda _hold: None)

    def __init__(self) -> None:
        self._forms: dict[object, object] = {}
        self.now = 100.0
        self.woken: list[object] = []
        self.live: dict[Hold, None] = {}
        self.queues = Queues(self)
        self.garbage = Garbage(self.queues)
        self.dead = self.garbage.dead
        self.wake = self.woken.append
        self.random = lambda: 0.0

    def clock(self) -> float:
        return self.now

    def channels(self, client: str) -> tuple[str, ...]:
        return "java", "waiting", f"wake:{client}"

    def hold(self, number: int = 1, lease: float = 30.0) -> Hold:
        lock: Any = self
        return Hold().of(lock, lambda: None, f"$14\r\nc:{number:012}\r\n", lease, True)

    def owning(self, number: bytes) -> _Session:
        del number
        return self


@pytest.fixture
def session() -> _Session:
    """Return a session without anything."""
    return _Session()


@pytest.fixture
def watchdog(session: _Session) -> Watchdog:
    """Return the watchdog of *session*."""
    return Watchdog(session)


def test_one_of_two_releases_closes(session: _Session) -> None:
    """Whoever comes first when the last entry is gone closes the hold, and nobody else does."""
    hold = session.hold()
    hold.entries.extend((OPEN, "a", "b"))
    assert not hold.leave("a")
    assert hold.leave("b")
    assert not hold.leave("b")


def test_an_entry_keeps_a_hold_open_or_finds_it_closed(session: _Session) -> None:
    """Who enters while another flow releases is in, or is told that the hold is closed."""
    hold = session.hold()
    hold.entries.extend((OPEN, "a"))
    hold.drop("a")
    assert hold.enter("b")
    assert not hold.leave("a")
    assert hold.depth == 1
    assert hold.leave("b")
    assert not hold.enter("c")
    assert not hold.entries


@pytest.mark.parametrize(
    ("asking", "resent", "answers", "settled"),
    [
        (False, False, [None], True),
        (False, False, [ServerUnavailableError("", transient=True)], False),
        (True, False, [None], False),
        (True, False, [None, 1], True),
        (True, True, [1, 1, 1], False),
    ],
    ids=["all-answered", "no-answer", "nothing-found", "found", "several"],
)
def test_garbage_is_released_until_nothing_can_come(
    session: _Session, asking: bool, resent: bool, answers: list[Any], settled: bool
) -> None:
    """The less is known of the tries, the longer releases go on; a lease ends all."""
    hold = session.hold()
    hold.asking, hold.resent, hold.over = asking, resent, ENDED
    session.garbage.add(hold)
    for answer in answers:
        assert session.garbage.due(session.now) == [hold]
        assert session.garbage.due(session.now + 60) == [], "it is under way"
        session.garbage.answered(hold, answer, session.now)
        session.now = max(session.now, min(session.garbage.next_due(), session.now + 5))
    assert (hold not in session.dead) is settled
    session.now += 31
    if not settled:
        assert session.garbage.due(session.now) == [hold]
        session.garbage.answered(hold, None, session.now)
    assert not session.dead


def test_a_found_place_does_not_settle_a_look_without_an_answer(session: _Session) -> None:
    """The look of a waiter that was interrupted may come after the release of its place."""
    lock: Any = session
    hold = session.hold()
    hold.place = Place(Line(session, lock))
    hold.place.sent, hold.asking, hold.over = session.now, True, ENDED
    session.garbage.add(hold)
    session.garbage.answered(hold, 0, session.now)
    assert hold in session.dead
    session.now += 31
    session.garbage.answered(hold, None, session.now)
    assert not session.dead


def test_a_place_that_no_release_has_reached_is_released_again(session: _Session) -> None:
    """A waiter with a lease of its own, which gave up while the server was away, leaves no place."""
    lock: Any = session
    hold = Hold().of(lock, lambda: None, f"$14\r\nc:{1:012}\r\n", 1.0, False)
    hold.place = Place(Line(session, lock))
    hold.over = ENDED
    session.garbage.add(hold)
    for answer in (ServerUnavailableError("", transient=True), 0):
        assert hold in session.dead
        session.garbage.answered(hold, answer, session.now)
        session.now += 2
    assert not session.dead


@pytest.mark.parametrize(
    ("seconds", "starts"), [(0.0, False), (0.5, True), (1.4, True), (1.6, False), (2.5, False)]
)
def test_a_grant_counts_from_the_refusal(
    session: _Session, seconds: float, *, starts: bool
) -> None:
    """A waiter starts with its news only if half of the grant is left, by the most careful count."""
    place = Place(Line(session, session))  # type: ignore[arg-type]
    place.sent, place.refused = session.now, 1_000_000
    news = News(1_000_000 + (10_000_000 if seconds else 0))
    until = place.granted_until(news, 30.0, session.now + 10 + seconds)
    assert bool(until) is starts
    if starts:
        assert session.now + 12.9 < until < session.now + 13


def test_a_grant_for_nobody_is_released(session: _Session) -> None:
    """Whatever is granted to a number that is unknown or over becomes garbage; a look does not."""
    lock: Any = session
    session.queues.tell(lock, b"000000000007", LOOK)
    assert not session.dead
    session.queues.tell(lock, b"000000000007", News(5))
    (ghost,) = session.dead
    assert ghost.holder == "c:000000000007"
    assert session.woken


@pytest.mark.parametrize("asks", [False, True], ids=["about-to-look", "asking"])
def test_who_leaves_while_it_looks_lets_the_next_one_look(session: _Session, asks: bool) -> None:
    """A look goes to the next oldest, once, if whoever was to look has ended; not if it holds."""
    first, second, third = holds = [session.hold(number) for number in (1, 2, 3)]
    places = [session.queues.stand(hold) for hold in holds]
    places[0].line.look(session.now)
    assert [place.told for place in places] == [LOOK, None, None]
    if asks:
        first.asking = places[0].take() is LOOK
    session.queues.leave(second)
    first.over = ENDED
    session.queues.leave(first)
    session.queues.leave(first)
    assert places[2].told is LOOK
    assert places[2].take() is LOOK
    session.queues.leave(first)
    assert places[2].told is None
    session.queues.stand(second)
    places[2].tell(LOOK)
    session.queues.leave(third)
    assert places[1].told is None, "it has the lock"


def test_a_refusal_counts_only_by_the_present_subscription(session: _Session) -> None:
    """News after a new subscription may be another server's, with another clock: then it asks."""
    hold = session.hold()
    place = session.queues.stand(hold)
    for sent, counts in ((99.0, False), (100.0, True)):
        hold.sent_at = sent
        place.line.listen(can=True)
        session.queues.refused(hold, Refusal(30.0, 1_000_000, 1, joined=True, missed=b""))
        assert bool(place.refused) is counts
    place.line.deafen()
    assert not place.refused
    session.queues.refused(hold, Refusal(30.0, 1_000_000, 1, joined=False, missed=b""))
    assert not place.refused, "it was under way"


def test_a_renewal_counts_from_when_it_was_sent(watchdog: Watchdog, session: _Session) -> None:
    """However late its answer comes, and whatever else was sent meanwhile."""
    assert watchdog.due(90.0, []) == []  # the first turn
    hold = session.hold()
    hold.entries.extend((OPEN, session))
    hold.grant(100.0, 30.0)
    hold.owner = _Owner  # type: ignore[assignment]
    session.live[hold] = None
    (renewal,) = watchdog.due(110.0, [])
    assert watchdog.due(110.9, []) == []
    watchdog.answered(renewal, [True], 111.0)
    assert hold.valid_until == valid_until(110.0, 30.0)


@pytest.mark.parametrize("placed", [False, True], ids=["without a place", "with a place"])
@pytest.mark.parametrize("reason", ["server lost it", "unreachable past validity"])
def test_what_a_lost_hold_may_have_left_is_released(
    watchdog: Watchdog, session: _Session, reason: Any, *, placed: bool
) -> None:
    """A renewal may have been executed, and a mark in the queue blames its client."""
    hold = session.hold()
    hold.entries.extend((OPEN, session))
    if placed:
        session.queues.stand(hold)
    watchdog.lose(hold, reason)
    assert (hold in session.dead) is (placed or reason != "server lost it")


def test_what_a_closed_client_has_lost_makes_no_flows_one(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """Nothing is left of it in the thread, whose contexts are owners of their own then."""
    with interlock.connect(redis_url) as client:
        assert client.lock("lost").acquire(lease=0.2)
        hold = client.lock("lost").hold
        assert hold is not None
        wait_until(hold.lost.is_set, 5, "it is lost")
    one, another = contextvars.copy_context(), contextvars.copy_context()
    with interlock.connect(redis_url) as client:
        lock = client.lock("name")
        assert one.run(lock.acquire)
        assert not another.run(lock.acquire, timeout=0)
        one.run(lock.release)
    assert not redis_client.exists("name")


def test_a_look_takes_no_news_away(session: _Session) -> None:
    """Whoever has news starts with them; a look is what he would do anyway."""
    place = session.queues.stand(session.hold())
    news = News(5)
    for each in (LOOK, news, LOOK):
        place.tell(each)
    assert place.take() is news


@pytest.mark.parametrize(("can", "seconds"), [(True, POLL), (False, DEAF)])
def test_a_line_looks_again_and_again(session: _Session, *, can: bool, seconds: float) -> None:
    """Each look sets the timer anew, unless the answer to it does."""
    line = session.queues.stand(session.hold()).line
    line.listen(can=can)
    line.look(session.now)
    assert line.look_at == session.now + seconds


def test_an_answer_tells_who_was_missed(session: _Session) -> None:
    """A waiter hears from the answer to another one that it was granted the lock."""
    asker, missed = session.hold(1), session.hold(2)
    places = [session.queues.stand(hold) for hold in (asker, missed)]
    session.queues.refused(asker, Refusal(30.0, 1_000_000, 2, joined=False, missed=missed.number))
    assert [place.told for place in places] == [None, LOOK]


def test_who_lost_its_place_lets_the_others_look(session: _Session) -> None:
    """All places of a client go at once: who was refused before that joins anew, too."""
    first, second = session.hold(1), session.hold(2)
    places = [session.queues.stand(hold) for hold in (first, second)]
    places[0].line.listen(can=True)
    for hold, place in zip((first, second), places, strict=True):
        hold.sent_at = session.now
        session.queues.refused(hold, Refusal(30.0, 1_000_000, 2, joined=True, missed=b""))
        place.take()
    session.queues.refused(first, Refusal(30.0, 2_000_000, 1, joined=True, missed=b""))
    assert places[1].told is LOOK


async def test_tasks_that_end_have_the_upkeep_do_nothing(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They end by the thousand, and each turn looks at everything that is held or waits."""
    turns: list[float] = []
    turn = Session.turn
    monkeypatch.setattr(
        Session, "turn", lambda session, now: turns.append(now) or turn(session, now)
    )

    async def use(number: int) -> None:
        lock = client.lock(f"lock {number}")
        await lock.acquire()
        await lock.release()

    async with interlock.asyncio.connect(redis_url) as client, client.lock("kept"):
        for number in range(50):
            await asyncio.create_task(use(number))
    assert len(turns) < 10


def test_a_client_has_one_session(redis_url: str) -> None:
    """Threads that ask at once get the same one: two would release each other's grants."""
    for _ in range(10):
        with interlock.connect(redis_url) as client, ThreadPoolExecutor(8) as pool:
            locks = [client.lock(str(number)) for number in range(8)]
            ready = threading.Barrier(8)

            def ask(lock: Any, ready: threading.Barrier = ready) -> int:
                ready.wait()
                return id(lock._core.session)

            assert len(set(pool.map(ask, locks))) == 1


@pytest.fixture
def lock(redis_url: str) -> Iterator[Any]:
    """Return a lock."""
    with interlock.connect(redis_url) as client:
        made = client.lock("the name")
        for _ in range(3):
            with made:
                pass
        yield made


def _block(lock: Any) -> None:
    with lock:
        pass


@pytest.mark.filterwarnings("ignore::interlock.MisuseWarning")  # of a block that never began
@pytest.mark.parametrize("way", ["acquire", "with", "release"])
def test_a_strike_anywhere_leaves_nothing(lock: Any, way: str) -> None:
    """Soon after the error is seen nothing is held, here and on the server."""
    calls = {"acquire": lock.acquire, "with": lambda: _block(lock), "release": lock.release}
    state = lock._core.session
    for at in range(3, 5000, 7):
        if way == "release":
            assert lock.acquire(timeout=5)
        struck = strike(calls[way], at)
        gc.collect()
        if struck and way == "release" and lock.hold is not None:
            lock.release()  # it was struck before it began
        if not struck:
            break
        deadline = time.monotonic() + 5
        while lock.locked() or state.live or current_owner().table or any(current_owner().cell[0]):
            assert time.monotonic() < deadline, at
            time.sleep(0.001)
        state.garbage.dead.clear()  # an unanswered try is released for a whole lease
    assert at > 100
    if way == "acquire":
        lock.release()


@pytest.mark.parametrize("way", ["hand over", "adopt"])
def test_a_strike_anywhere_gives_to_nobody(lock: Any, way: str) -> None:
    """A hold that is struck on its way to another process is soon nobody's."""
    state, at = lock._core.session, 0
    for at in range(3, 5000, 7):
        assert lock.acquire(timeout=5), at
        hold = lock.hold
        ticket = None if way == "hand over" else hold.hand_over()
        again = partial(adopt, lock._driver, ticket)
        struck = strike(hold.hand_over if ticket is None else again, at)
        if not struck:
            break
        if ticket is None and lock.hold is not None:
            lock.release()  # it was struck before it began
        if ticket is not None:
            with contextlib.suppress(NotHeldError):
                again().release()
        deadline = time.monotonic() + 5
        while lock.locked() or state.live or current_owner().table or any(current_owner().cell[0]):
            assert time.monotonic() < deadline, at
            time.sleep(0.001)
        state.garbage.dead.clear()  # an unanswered try is released for a whole lease
    assert at > 100
    assert (lock.hold is None) is (way == "hand over")


def test_a_block_that_is_being_left_is_not_dropped(redis_url: str) -> None:
    """The end of a task's block begins late, when Python has dropped what the block looked up."""

    async def leave_late() -> None:
        async with interlock.asyncio.connect(redis_url) as client:
            lock = client.lock("the name")
            leave = lock.__aexit__
            hold = await lock.__aenter__()
            leaving = leave(None, None, None)
            del leave
            await asyncio.sleep(0.1)  # the upkeep would hear of it
            assert hold
            await leaving
            assert not await lock.locked()

    asyncio.run(leave_late())


QUEUE = "interlock_queue:{the name}"


def test_joins_keep_the_queue(redis_url: str, redis_client: redis.Redis) -> None:
    """A join renews the queue, also if others join all the time: or all would lose their places."""
    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as other:
        held, first, next_one = (each.lock("the name") for each in (client, other, other))
        with held:
            waiting = threading.Thread(target=_block, args=[first])
            waiting.start()
            wait_until(lambda: redis_client.zcard(QUEUE) == 1, 5, "it stands in the queue")
            redis_client.pexpire(QUEUE, 5000)
            assert not next_one.acquire(timeout=0.5)
            left = redis_client.pttl(QUEUE)
        waiting.join()
    assert left > 5000
