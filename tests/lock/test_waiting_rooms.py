"""Clients of several processes wait for a lock or for permits: who is next, who delays whom.

Each of these guarantees holds for every kind that has a queue on the server. What only one kind
promises stands in the files of that kind.
"""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import resting
from tests.lock.queued import entering, first_process
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    import redis
    from tests.lock.children import Child
    from tests.support.servers import RedisServer

PROMPT = 15
"""Seconds, on a busy machine: far below the poll cap and the leases of these clients."""
WAIT = """
client = interlock.connect(url, poll_cap=30)
say("waits")
kept = MAKE.acquire()
say("took")
sys.stdin.readline()
"""


@dataclass(frozen=True)
class Room:
    """A kind that clients wait for.

    Attributes:
        make: how a process makes it from its `client`.
        queue: the key of those who wait.
        dead: places of clients that do not live; *future* stands for a time to come.
        permits: whether it has permits.
        leased: whether an acquire gives what is to be released.
    """

    make: str
    queue: str = "interlock_queue:{name}"
    dead: dict[str, str | int] = field(
        default_factory=lambda: {
            "dead-1": 1,
            "dead-2:7": 2,
            "dead-3:7:token": "future",
            "dead-4:7:write": "future",
        }
    )
    permits: bool = False
    leased: bool = False

    def of(self, client: interlock.Client) -> Any:
        """Return it, made by *client*."""
        return eval(self.make, {"client": client})

    def taken(self, client: interlock.Client) -> Callable[[], None]:
        """Take all there is; return what gives it back."""
        it = self.of(client)
        if self.permits:
            assert it.try_set_permits(1)
        give_back = self.take(it)
        assert give_back
        return give_back

    def take(self, it: Any, **options: Any) -> Callable[[], None] | None:
        """Take *it*; return what gives it back, in any thread, or None if it was not given."""
        kept = it.acquire(**options)
        if not kept:
            return None
        release: Callable[[], None]
        release = (kept if self.leased else it if self.permits else it.hold).release
        return release


SEMAPHORE = "interlock_semaphore_queue:{name}"
ROOMS = {
    "lock": Room('client.lock("name")'),
    "fenced_lock": Room('client.fenced_lock("name")'),
    "read_write_lock": Room('client.read_write_lock("name").write'),
    "election": Room('client.election("name")', "interlock_queue:interlock_election:{name}"),
    "semaphore": Room(
        'client.semaphore("name")',
        SEMAPHORE,
        {"dead-1": 1, "dead-2::3": "future", "+dead-4": -1, "dead-5::leased:2": 2},
        permits=True,
    ),
    "leased_semaphore": Room(
        'client.leased_semaphore("name")',
        SEMAPHORE,
        {"dead-1::leased:1": 1, "dead-2::leased:2": "future", "dead-3": "future"},
        permits=True,
        leased=True,
    ),
}


class Waiting:
    """Somebody who waits in a client of its own."""

    def __init__(
        self,
        room: Room,
        url: str,
        pool: ThreadPoolExecutor,
        *,
        timeout: float = 60,
        poll_cap: float = 30,
    ) -> None:
        self.client = interlock.connect(url, poll_cap=poll_cap)
        self.got: Future[Any] = pool.submit(room.take, room.of(self.client), timeout=timeout)

    def has_it(self) -> None:
        """Wait until it has got it, before it could have polled."""
        assert self.got.result(PROMPT)

    def release(self) -> None:
        """Give back what it has got."""
        self.got.result(0)()


@pytest.fixture(params=ROOMS)
def room(request: pytest.FixtureRequest) -> Room:
    """Give every kind that has a queue."""
    return ROOMS[request.param]


@pytest.fixture
def give_back(redis_url: str, room: Room) -> Iterator[Callable[[], None]]:
    """Give what gives back all there is, so that the first who waits gets it."""
    with interlock.connect(redis_url, poll_cap=30) as client:
        yield room.taken(client)


@pytest.fixture
def enter(
    redis_url: str, redis_client: redis.Redis, room: Room
) -> Iterator[Callable[..., Waiting]]:
    """Give what makes another client wait, in the order of the calls."""

    def begin(pool: ThreadPoolExecutor, **options: Any) -> Waiting:
        return Waiting(room, redis_url, pool, **options)

    with entering(redis_client, room.queue, begin) as enter:
        yield enter


@pytest.fixture
def child(redis_url: str, redis_client: redis.Redis, room: Room) -> Iterator[Child]:
    """Give a process that waits: name *give_back* before it, and it is the first in the queue."""
    with first_process(
        redis_client, room.queue, WAIT.replace("MAKE", room.make), redis_url
    ) as waiter:
        yield waiter


def test_first_come_first_served(
    give_back: Callable[[], None], enter: Callable[..., Waiting]
) -> None:
    """Each release goes to the client that waits longest, and to no other one."""
    waiting = [enter() for _ in range(5)]
    for number, each in enumerate(waiting):
        give_back()
        each.has_it()
        assert not any(other.got.done() for other in waiting[number + 1 :])
        give_back = each.release


def test_a_killed_head_delays_nobody(
    give_back: Callable[[], None], child: Child, enter: Callable[..., Waiting]
) -> None:
    """A release passes over a client whose process is gone."""
    second = enter()
    child.kill()
    give_back()
    second.has_it()


def test_a_closed_head_delays_nobody(
    give_back: Callable[[], None], enter: Callable[..., Waiting]
) -> None:
    """A release passes over a client that was closed while it waited."""
    first, second = enter(), enter()
    first.client.close()
    with pytest.raises(interlock.ClosedError):
        first.got.result(PROMPT)
    give_back()
    second.has_it()


def test_a_frozen_head_delays_others_by_one_claim(
    give_back: Callable[[], None], child: Child, enter: Callable[..., Waiting]
) -> None:
    """A stopped process loses its turn to the next one. It gets another when it goes on."""
    second = enter()
    child.signal(signal.SIGSTOP)
    began = time.monotonic()
    give_back()
    second.has_it()
    assert time.monotonic() - began > 0.2, "its turn lasts for a while"
    second.release()
    child.signal(signal.SIGCONT)
    assert child.hear() == "took"


def test_who_is_killed_with_its_turn_delays_others_by_one_claim(
    give_back: Callable[[], None], child: Child, enter: Callable[..., Waiting]
) -> None:
    """A turn that ends with its process goes to the next in the queue, long before a poll."""
    second = enter()
    child.signal(signal.SIGSTOP)
    give_back()
    child.kill()
    second.has_it()


@pytest.mark.parametrize("change", [("add_permits", 1), ("set_permits", 2)], ids=lambda it: it[0])
@pytest.mark.parametrize("room", ["semaphore", "leased_semaphore"], indirect=True)
def test_a_frozen_head_delays_permits_that_all_are_told_of_by_one_claim(
    redis_url: str,
    redis_client: redis.Redis,
    enter: Callable[..., Waiting],
    room: Room,
    change: tuple[str, int],
) -> None:
    """Who asks in vain may have woken a stopped process, and looks whether it takes its permits."""
    code = WAIT.replace("MAKE", room.make)
    with interlock.connect(redis_url, poll_cap=30) as client:
        give_back = room.taken(client)
        with first_process(redis_client, room.queue, code, redis_url) as first:
            second = enter()
            first.signal(signal.SIGSTOP)
            method, permits = change
            getattr(room.of(client), method)(permits)
            second.has_it()
            second.release()
            first.signal(signal.SIGCONT)
            assert first.hear() == "took"
            give_back()


def test_who_releases_and_ends_leaves_the_look_to_the_next(
    redis_url: str, redis_client: redis.Redis, enter: Callable[..., Waiting], room: Room
) -> None:
    """A closed client looks no more. It tells the next in the queue to look, before any poll."""
    code = WAIT.replace("MAKE", room.make)
    with interlock.connect(redis_url, poll_cap=30) as client:
        give_back = room.taken(client)
        with first_process(redis_client, room.queue, code, redis_url) as first:
            second = enter()
            first.signal(signal.SIGSTOP)
            give_back()
            client.close()
            second.has_it()


def test_a_dead_client_leaves_the_queue_before_its_turn(
    give_back: Callable[[], None],
    redis_client: redis.Redis,
    enter: Callable[..., Waiting],
    room: Room,
) -> None:
    """A client that polls also looks. So nobody is shown who waits no longer."""
    waiting = enter(poll_cap=0.5)
    future = time.time_ns() // 10**5
    places = {place: future if at == "future" else at for place, at in room.dead.items()}
    redis_client.zadd(room.queue, places)
    wait_until(lambda: redis_client.zcard(room.queue) == 1, PROMPT, "only the living are left")
    assert not waiting.got.done()
    give_back()
    waiting.has_it()


def test_who_gives_up_leaves_the_queue(
    give_back: Callable[[], None],
    redis_client: redis.Redis,
    enter: Callable[..., Waiting],
    room: Room,
) -> None:
    """A wait that ends in vain leaves no place behind, and the next one is served at once."""
    first = enter(timeout=0.5)
    if room.leased:
        with pytest.raises(interlock.AcquireTimeoutError):
            first.got.result(PROMPT)
    else:
        assert not first.got.result(PROMPT)
    wait_until(lambda: redis_client.zcard(room.queue) == 0, PROMPT, "nobody stands in the queue")
    second = enter()
    give_back()
    second.has_it()


def test_without_a_queue_all_are_told(
    give_back: Callable[[], None],
    redis_client: redis.Redis,
    enter: Callable[..., Waiting],
    room: Room,
) -> None:
    """When the queue is lost, as by a restart, a release is told to all who wait."""
    waiting = [enter(), enter()]
    redis_client.delete(room.queue)
    give_back()
    wait_until(lambda: any(each.got.done() for each in waiting), PROMPT, "one has it")
    for each in sorted(waiting, key=lambda each: not each.got.done()):
        each.has_it()
        each.release()


@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        (name, lacking)
        for name, room in ROOMS.items()
        for lacking in ("zadd", "zrem", "zscore", "pubsub|numsub")
        # A leased semaphore needs the others for its leases.
        if not room.leased or lacking == "pubsub|numsub"
    ],
)
def test_users_who_lack_a_part_of_the_rights_have_their_turns(
    fresh_server: RedisServer, name: str, lacking: str
) -> None:
    """Without one of the queue's commands a client waits without a place, and is told."""
    room = ROOMS[name]
    with fresh_server.client() as server:
        rights = ("~*", "&*", "+@all", f"-{lacking}")
        server.execute_command("ACL", "SETUSER", "part", "on", ">x", *rights)
    url = fresh_server.url(0, "part", "x")
    with (
        interlock.connect(url, poll_cap=60, card=False) as one,
        interlock.connect(url, poll_cap=60, card=False) as two,
        ThreadPoolExecutor(1) as pool,
    ):
        give_back = room.taken(one)
        for client in (two, one):
            got = pool.submit(room.take, room.of(client), timeout=50)
            wait_until(resting(client), 10, "it has looked, and waits")
            give_back()
            taken = got.result(2 * PROMPT)
            assert taken
            give_back = taken
        give_back()
