"""The calls of the objects that are no locks, for `tests.signals`, and what a strike may leave.

Each strike has an object of its own. So nothing that comes late is taken for that of another one.
Another client arranges what a call needs, and is the other party where it takes two.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import interlock
from interlock._core.model import names
from interlock._core.model.names import barrier_key, condition_key
from interlock.errors import BrokenBarrierError, HoldLostError, NotHeldError
from tests.support.patience import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    import redis

SHORT = 0.003
"""Seconds of a wait that ends by its time."""
LONG = 30.0
"""Seconds of a wait that something else ends."""
EXPECTED = (BrokenBarrierError, HoldLostError, NotHeldError)
"""What a struck call may raise in place of the strike, or the call after it."""


class Other:
    """Another client, with two threads."""

    def __init__(self, url: str, lease: float) -> None:
        self.client = interlock.connect(url, lease=lease)
        self.threads = ThreadPoolExecutor(2)

    def close(self) -> None:
        """End both."""
        self.threads.shutdown()
        self.client.close()


class Trial:
    """One object, and what its user was told.

    Attributes:
        client: uses the object; the strike comes there.
        other: arranges what the call needs.
        raw: asks the server.
        name: of the object.
        asyncio: whether *client* is one of asyncio.
        it: the object.
        held: what `Row.before` returned.
        told: what the struck call returned, in a tuple; None if it did not return.
        peers: what the other client's threads do.
        struck: set after the call.
        fault: what was seen to be wrong.
    """

    def __init__(
        self, client: Any, other: Other, raw: redis.Redis, name: str, *, asyncio: bool
    ) -> None:
        self.client, self.other, self.raw, self.name = client, other.client, raw, name
        self._threads = other.threads
        self.asyncio = asyncio
        self.it: Any = None
        self.held: Any = None
        self.told: tuple[Any] | None = None
        self.peers: list[Future[Any]] = []
        self.struck = threading.Event()
        self.fault = ""

    def start(self, call: Callable[[Trial], object]) -> None:
        """Make *call* in a thread of the other client."""
        self.peers.append(self._threads.submit(call, self))

    def members(self, key: str) -> int:
        """Return how many members the sorted set *key* has."""
        return self.raw.zcard(key)

    def number(self) -> int:
        """Return the number that the object's own key has."""
        return int(cast("bytes | None", self.raw.get(self.name)) or 0)


def _nothing(trial: Trial) -> None:
    del trial


def _no_fault(trial: Trial) -> str:
    del trial
    return ""


@dataclass(frozen=True)
class Row:
    """One operation of one kind.

    Attributes:
        kind: the name of the object's factory.
        operation: what is struck.
        make: makes the object.
        act: makes the call; in the asyncio face it returns what to await.
        before: comes before it, without a strike; likewise.
        after: what comes after it, struck or not; likewise.
        wrong: says what is there that must not be; empty if nothing is.
        begun: whether only strikes count that come when the call has begun.
    """

    kind: str
    operation: str
    make: Callable[[Any, str], Any]
    act: Callable[[Trial], Any]
    before: Callable[[Trial], Any] = _nothing
    after: Callable[[Trial], Any] = _nothing
    wrong: Callable[[Trial], str] = _no_fault
    begun: bool = False


def left_behind(row: Row, trial: Trial) -> str:
    """Say what the client or the server still has; empty if nothing."""
    session = trial.client._second_driver().session
    if trial.fault:
        return trial.fault
    if holds := list(session.live):
        return f"the client still has {holds}"
    if places := dict(session.queues.places):
        return f"still waiting: {places}"
    return row.wrong(trial)


def _block(trial: Trial) -> Any:
    return _enter(trial, trial.it)


def _enter(trial: Trial, block: Any) -> Any:
    if trial.asyncio:
        return _awaited_block(block)
    with block:
        return None


async def _awaited_block(it: Any) -> None:
    async with it:
        pass


# Barrier.


def _parties(trial: Trial) -> str:
    count = trial.members(barrier_key(trial.name))
    return f"{count} parties are left" if count else ""


def _stand(trial: Trial) -> None:
    trial.start(_stand_at)
    wait_until(lambda: bool(_parties(trial)), LONG, "the other party stands there")


def _stand_at(trial: Trial) -> None:
    with suppress(BrokenBarrierError):
        trial.other.barrier(trial.name, 2).wait(LONG)


def _dismiss(trial: Trial) -> None:
    """End the wait of the other party if both have not met."""
    trial.other.barrier(trial.name, 2).abort()
    trial.peers[0].result(2 * LONG)


def _of(parties: int) -> Callable[[Any, str], Any]:
    return lambda client, name: client.barrier(name, parties)


BARRIER = [
    Row("barrier", "wait", _of(2), lambda trial: trial.it.wait(SHORT), wrong=_parties),
    Row("barrier", "pass", _of(1), lambda trial: trial.it.wait(LONG), wrong=_parties),
    Row("barrier", "meet", _of(2), lambda trial: trial.it.wait(LONG), _stand, _dismiss, _parties),
    Row("barrier", "abort", _of(2), lambda trial: trial.it.abort(), _stand, _dismiss, _parties),
    Row("barrier", "reset", _of(2), lambda trial: trial.it.reset(), _stand, _dismiss, _parties),
]


# Condition.


def _condition(client: Any, name: str) -> Any:
    return client.condition(name)


def _waiters(trial: Trial) -> str:
    count = trial.members(condition_key(trial.name, ""))
    if count:
        return f"{count} waiters are left"
    return "the lock is held" if trial.raw.exists(trial.name) else ""


def _wait_in_block(trial: Trial, seconds: float = SHORT) -> Any:
    if trial.asyncio:
        return _await_in_block(trial, seconds)
    with trial.it:
        # A strike at the end of the block takes nothing back of what the wait has told.
        trial.told = (trial.it.wait(seconds),)
    return trial.told[0]


async def _await_in_block(trial: Trial, seconds: float) -> Any:
    async with trial.it:
        trial.told = (await trial.it.wait(seconds),)
    return trial.told[0]


def _notify(how: str) -> Callable[[Trial], Any]:
    def act(trial: Trial) -> Any:
        if trial.asyncio:
            return _awaited_notify(trial.it, how)
        with trial.it:
            return getattr(trial.it, how)()

    return act


async def _awaited_notify(condition: Any, how: str) -> None:
    async with condition:
        await getattr(condition, how)()


def _queue_behind(trial: Trial) -> None:
    trial.start(_wait_behind)
    trial.start(_notify_one)


def _stand_there(trial: Trial, count: int) -> bool:
    """Wait until *count* wait, or the call was struck; return whether they wait."""
    waiting = condition_key(trial.name, "")
    wait_until(lambda: trial.struck.is_set() or trial.members(waiting) >= count, LONG, "they wait")
    return trial.members(waiting) >= count


def _wait_behind(trial: Trial) -> bool:
    if not _stand_there(trial, 1):
        return True
    condition = trial.other.condition(trial.name)
    with condition:
        return condition.wait(LONG)


def _notify_one(trial: Trial) -> bool:
    if not _stand_there(trial, 2):
        return False
    condition = trial.other.condition(trial.name)
    with condition:
        condition.notify()
    return True


def _see_notification(trial: Trial) -> None:
    """Look who got the notification: the struck waiter, which was told, or the one behind it."""
    behind, notifier = trial.peers
    condition = trial.other.condition(trial.name)
    if not notifier.result(2 * LONG) or trial.told == (True,):
        while not behind.done():
            with condition:
                condition.notify_all()
    elif not behind.result(2 * LONG):
        trial.fault = "a notification is lost"


CONDITION = [
    Row("condition", "with", _condition, _block, wrong=_waiters),
    Row("condition", "wait", _condition, _wait_in_block, wrong=_waiters),
    Row("condition", "notify", _condition, _notify("notify"), wrong=_waiters),
    Row("condition", "notify_all", _condition, _notify("notify_all"), wrong=_waiters),
    Row(
        "condition",
        "notified",
        _condition,
        lambda trial: _wait_in_block(trial, LONG),
        _queue_behind,
        _see_notification,
        _waiters,
    ),
]


# Latch and event.


def _latch(client: Any, name: str) -> Any:
    return client.count_down_latch(name)


def _set_count(trial: Trial) -> None:
    trial.other.count_down_latch(trial.name).try_set_count(3)


def _counted_once(trial: Trial) -> str:
    count, told = trial.number(), trial.told is not None
    return "" if count == 2 or (count == 3 and not told) else f"the count is {count}"


def _opened(trial: Trial) -> str:
    return "it is not open" if trial.told is not None and trial.number() else ""


def _open(trial: Trial) -> None:
    trial.other.count_down_latch(trial.name).try_set_count(1)


LATCH = [
    Row(
        "count_down_latch",
        "count_down",
        _latch,
        lambda trial: trial.it.count_down(),
        _set_count,
        wrong=_counted_once,
    ),
    Row(
        "count_down_latch",
        "open",
        _latch,
        lambda trial: trial.it.count_down(),
        _open,
        wrong=_opened,
    ),
    Row("count_down_latch", "wait", _latch, lambda trial: trial.it.wait(SHORT), _set_count),
    Row("count_down_latch", "try_set_count", _latch, lambda trial: trial.it.try_set_count(3)),
    Row("count_down_latch", "count", _latch, lambda trial: trial.it.count(), _set_count),
    Row("count_down_latch", "delete", _latch, lambda trial: trial.it.delete(), _set_count),
]


def _event(client: Any, name: str) -> Any:
    return client.event(name)


def _set(trial: Trial) -> None:
    trial.other.event(trial.name).set()


def _is_set(wanted: bool) -> Callable[[Trial], str]:
    def wrong(trial: Trial) -> str:
        found = trial.other.event(trial.name).is_set()
        return "" if trial.told is None or found is wanted else f"it is set: {found}"

    return wrong


EVENT = [
    Row("event", "set", _event, lambda trial: trial.it.set(), wrong=_is_set(wanted=True)),
    Row(
        "event", "clear", _event, lambda trial: trial.it.clear(), _set, wrong=_is_set(wanted=False)
    ),
    Row("event", "wait", _event, lambda trial: trial.it.wait(SHORT)),
    Row("event", "is_set", _event, lambda trial: trial.it.is_set(), _set),
]


# Election.


def _election(client: Any, name: str) -> Any:
    return client.election(name)


def _leads(trial: Trial) -> str:
    return "it still leads" if trial.raw.exists(names.election_key(trial.name)) else ""


def _acquire(trial: Trial) -> Any:
    return _awaited_acquire(trial.it) if trial.asyncio else trial.it.acquire()


async def _awaited_acquire(it: Any) -> None:
    """Acquire, and release in the same task: another one may not."""
    await it.acquire()
    try:
        pass
    finally:
        await _awaited_release(it)


def _acquired(trial: Trial) -> None:
    if not trial.asyncio:
        trial.it.acquire()


def _release(trial: Trial) -> Any:
    return _awaited_acquire(trial.it) if trial.asyncio else trial.it.release()


async def _awaited_release(it: Any) -> None:
    if it.hold is not None:
        with suppress(*EXPECTED):
            await it.release()


def _give_back(trial: Trial) -> None:
    while not trial.asyncio and trial.it.hold is not None:
        with suppress(*EXPECTED):
            trial.it.release()


def _run(trial: Trial) -> Any:
    return trial.it.run(_led if trial.asyncio else lambda: None)


async def _led() -> None:
    pass


ELECTION = [
    Row("election", "acquire", _election, _acquire, after=_give_back, wrong=_leads),
    Row("election", "release", _election, _release, _acquired, _give_back, _leads),
    Row("election", "with", _election, _block, wrong=_leads),
    Row("election", "run", _election, _run, wrong=_leads),
    Row("election", "leader", _election, lambda trial: trial.it.leader(), wrong=_leads),
]


# Semaphores, and a lock that one call gives.


def _semaphore(client: Any, name: str) -> Any:
    return client.semaphore(name)


def _one_permit(trial: Trial) -> Any:
    trial.other.semaphore(trial.name).try_set_permits(1)
    return trial.it.acquire()


def _free(trial: Trial) -> None:
    trial.other.semaphore(trial.name).try_set_permits(1)


def _is_free(trial: Trial) -> str:
    return "" if trial.number() == 1 else f"{trial.number()} permits of 1"


def _drained(trial: Trial) -> str:
    taken = 0 if trial.told is None else trial.told[0]
    return "" if trial.number() + taken == 1 else f"{trial.number()} + {taken} permits of 1"


def _added(trial: Trial) -> str:
    return "" if trial.number() == 2 else f"{trial.number()} permits, not 2"


def _leased(client: Any, name: str) -> Any:
    return client.leased_semaphore(name)


def _one_leased(trial: Trial) -> Any:
    trial.other.leased_semaphore(trial.name).try_set_permits(1)
    return trial.it.acquire()


def _permit_is_back(trial: Trial) -> str:
    count = trial.members(names.permit_leases(trial.name))
    return f"{count} permits are held" if count else ""


def _release_permit(trial: Trial) -> Any:
    """Release it, as a program does that does not know how far it came."""
    if trial.asyncio:
        return _awaited_release_permit(trial.held)
    with suppress(*EXPECTED):
        trial.held.release()
    return None


async def _awaited_release_permit(permit: Any) -> None:
    with suppress(*EXPECTED):
        await permit.release()


def _used(trial: Trial) -> Any:
    """Take the only permit and give it back, as the call does later: some of that is kept."""
    _free(trial)
    return _awaited_use(trial.it) if trial.asyncio else [_use(trial.it) for _ in range(2)]


def _use(semaphore: Any) -> None:
    with semaphore.trying():
        pass


async def _awaited_use(semaphore: Any) -> None:
    for _ in range(2):
        await _awaited_block(semaphore.trying())


def _give_what_was_told(trial: Trial) -> Any:
    """Give back the permit of a call that returned."""
    if trial.told is None:
        return None
    if trial.told == (True,):
        return _awaited_give(trial.it) if trial.asyncio else trial.it.release()
    [trial.held] = trial.told
    return _release_permit(trial)


async def _awaited_give(semaphore: Any) -> None:
    await semaphore.release()


def _block_of_acquire(trial: Trial) -> Any:
    """Enter what the call returns at once: a call between them would be a place for a strike."""
    if trial.asyncio:
        return _awaited_block(trial.it.acquire())
    with trial.it.acquire():
        return None


def _acquires(kind: str, make: Callable[[Any, str], Any], wrong: Callable[[Trial], str]) -> Row:
    """Return a row in which the last of three acquires is struck."""
    return Row(kind, "acquire", make, lambda t: t.it.acquire(), _used, _give_what_was_told, wrong)


def _tries(kind: str, make: Callable[[Any, str], Any], wrong: Callable[[Trial], str]) -> Row:
    """Return a row in which a block is struck."""
    return Row(
        *(kind, "trying", make, lambda trial: _enter(trial, trial.it.trying(timeout=5)), _used),
        wrong=wrong,
    )


SEMAPHORES = [
    _acquires("semaphore", _semaphore, _is_free),
    _tries("semaphore", _semaphore, _is_free),
    Row("semaphore", "with", _semaphore, _block, _used, wrong=_is_free),
    _acquires("leased_semaphore", _leased, _permit_is_back),
    _tries("leased_semaphore", _leased, _permit_is_back),
    Row(
        "leased_semaphore",
        "acquire-with",
        _leased,
        _block_of_acquire,
        _used,
        wrong=_permit_is_back,
    ),
    Row(
        "semaphore",
        "release",
        _semaphore,
        lambda trial: trial.it.release(),
        _one_permit,
        wrong=_is_free,
    ),
    Row(
        "semaphore",
        "drain",
        _semaphore,
        lambda trial: trial.it.drain_permits(),
        _free,
        wrong=_drained,
    ),
    Row(
        "semaphore",
        "add",
        _semaphore,
        lambda trial: trial.it.add_permits(1),
        _free,
        wrong=_added,
        begun=True,
    ),
    Row(
        "leased_semaphore",
        "release",
        _leased,
        lambda trial: trial.held.release(),
        _one_leased,
        _release_permit,
        _permit_is_back,
    ),
    Row(
        "leased_semaphore",
        "extend",
        _leased,
        lambda trial: trial.held.extend(60),
        _one_leased,
        _release_permit,
        _permit_is_back,
    ),
]
ROWS = [*BARRIER, *CONDITION, *LATCH, *EVENT, *ELECTION, *SEMAPHORES]
