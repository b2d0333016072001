"""What no face can see of a barrier: copies, strikes, lost data and messages, refusals, what is left."""

from __future__ import annotations

import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from tests.core.strikes import Struck, strike
from tests.support.patience import wait_until

import interlock
from interlock import BrokenBarrierError, ServerUnavailableError
from interlock._core.objects.barrier import Arrive, End
from interlock._core.queue.places import POLL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import ThreadPoolExecutor

    import redis
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer

    from interlock import Barrier, Client
    from interlock._core.objects.barrier import Barrier as Core
    from interlock._core.objects.barrier import Party

WAITING, ENDED = "interlock_barrier:{name}", "interlock_barrier_ended:{name}"
PROMPT = 10.0
LEASE = 90.0


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    """Return a client whose leases no test outlives."""
    with interlock.connect(redis_url, lease=LEASE) as made:
        yield made


def _core(client: Client, parties: int = 2) -> Core:
    core: Any = client.barrier("name", parties)._core
    return core  # type: ignore[no-any-return]


def _run(client: Client, call: Any) -> Any:
    return call.script.decode(client._driver.eval(call))


def _arrives(client: Client, parties: int = 2) -> tuple[Party, int | None]:
    core = _core(client, parties)
    party = core.party()
    return party, _run(client, core.arrive(party))


def test_a_copy_finds_how_its_party_has_ended(client: Client, redis_client: redis.Redis) -> None:
    """Each command that comes again, however late, answers as before and changes nothing."""
    core = _core(client)
    assert not client.barrier("other", 1).wait()  # from here on its scripts are known
    (first, waits), (second, passed) = _arrives(client), _arrives(client)
    assert (waits, passed) == (None, 1)
    third, _ = _arrives(client)
    before = redis_client.zrange(WAITING, 0, -1, withscores=True)
    for party, index in ((first, 0), (second, 1)):
        for copy in (
            core.arrive(party),
            core.arrive(party, "1"),
            core.end(party, "leave"),
            core.end(party, "break"),
        ):
            assert _run(client, copy) == index
    left = core.party()
    assert _run(client, core.end(left, "leave")) == -1
    assert _run(client, core.arrive(left)) == -1
    operator = core.party("reset")
    assert redis_client.zrange(WAITING, 0, -1, withscores=True) == before
    assert _run(client, core.down(operator, 0)) == -1
    assert _run(client, core.arrive(third, "1")) == -1
    later, _ = _arrives(client)
    assert _run(client, core.down(operator, 0)) == -1
    assert _run(client, core.arrive(later, "1")) is None


def test_lost_data_lets_nobody_pass(client: Client, redis_client: redis.Redis) -> None:
    """A party that the server does not know any more learns that, and does not count again."""
    core, (party, _) = _core(client), _arrives(client)
    redis_client.flushall()
    assert _run(client, core.arrive(party, "1")) == -1
    assert _arrives(client)[1] is None
    assert _run(client, core.arrive(party)) == -1


def test_a_party_whose_lease_is_over_breaks_it(client: Client, redis_client: redis.Redis) -> None:
    """So the next arrival and the next look of another one find it."""
    for look in (False, True):
        core, (dead, _) = _core(client, 3), _arrives(client, 3)
        living, _ = _arrives(client, 3)
        redis_client.zadd(WAITING, {dead.holder: 1})
        assert client.barrier("name", 3).broken
        found = _run(client, core.arrive(living, "1")) if look else _arrives(client, 3)[1]
        assert found == -1
        assert _run(client, core.arrive(living, "1")) == -1
        assert redis_client.zrange(WAITING, 0, -1) == [b""]
        client.barrier("name", 3).reset()


def test_a_message_tells_the_index(
    client: Client, pool: ThreadPoolExecutor, proxy: FaultProxy
) -> None:
    """Who listens need not ask once more; if the message is lost, it learns it by its next look."""
    mine = interlock.connect(proxy.url(), lease=LEASE)
    with mine:
        for lost in (False, True):
            proxy.drop_messages = lost
            waiting = pool.submit(mine.barrier("name", 2).wait)
            wait_until(lambda: client.barrier("name", 2).n_waiting == 1, PROMPT, "it waits")
            wait_until(_core(mine).heard, PROMPT, "it listens")
            time.sleep(0.1)
            proxy.clear_record()
            began = time.monotonic()
            index = client.barrier("name", 2).wait(5)
            assert {index, waiting.result(PROMPT)} == {0, 1}
            assert time.monotonic() - began < (POLL + 2 if lost else POLL / 2)
            assert proxy.commands["EVALSHA"] == (1 if lost else 0)


def test_who_was_told_before_it_stood_looks(client: Client, pool: ThreadPoolExecutor) -> None:
    """A party that ends between its arrival and its wait, at a barrier that is heard by then."""
    core = _core(client, 3)
    slow = core.wait(core.session.clock() + PROMPT)
    waits = _run(client, slow.begin())
    waiting = pool.submit(client.barrier("name", 3).wait)
    wait_until(_core(client).heard, PROMPT, "the client listens")
    assert client.barrier("name", 3).wait() == 2
    assert waiting.result(PROMPT) == 1
    assert slow.party.place is None
    assert not slow.done(waits)
    effects = slow.rest(None)
    look: Any = next(effects)
    with pytest.raises(StopIteration) as passed:
        effects.send(_run(client, look))
    assert passed.value.value == 0


def test_a_full_server_lets_parties_leave(fresh_server: RedisServer) -> None:
    """It refuses an arrival, of which nothing is left, and nothing else."""
    with interlock.connect(fresh_server.url(), outage_timeout=0.5) as client:
        core, (party, _) = _core(client, 3), _arrives(client, 3)
        fresh_server.execute("CONFIG", "SET", "maxmemory", "1")
        try:
            with pytest.raises(ServerUnavailableError, match="OOM"):
                client.barrier("name", 3).wait(1)
            assert client.barrier("name", 3).n_waiting == 1
            assert _run(client, core.end(party, "leave")) == -1
            client.barrier("name", 3).abort()
            with pytest.raises(BrokenBarrierError):
                client.barrier("name", 3).wait(1)
            client.barrier("name", 3).reset()
            assert not client.barrier("name", 3).broken
        finally:
            fresh_server.execute("CONFIG", "SET", "maxmemory", "0")


@pytest.mark.parametrize("parties", [1, 2])
def test_who_cannot_listen_looks(redis_url: str, pool: ThreadPoolExecutor, parties: int) -> None:
    """Without messages a party passes with its next look, within two seconds."""
    with interlock.connect(redis_url, pubsub="off") as client:
        made = client.barrier("name", parties)
        passing = [pool.submit(made.wait, 30) for _ in range(parties)]
        assert sorted(each.result(POLL + PROMPT) for each in passing) == list(range(parties))


def test_what_ended_long_ago_is_forgotten(client: Client, redis_client: redis.Redis) -> None:
    """Ends are noted for two leases, and no longer."""
    old = {"a:1": (time.time() - 2 * LEASE - 5) * 1e6, "a:2": (time.time() - LEASE) * 1e6}
    redis_client.zadd(ENDED, {**old, "b:1": -old["a:1"], "b:2": -old["a:2"]})
    assert client.barrier("name", 1).wait() == 0
    noted: Any = redis_client.zrange(ENDED, 0, -1)
    left = {each.decode() for each in noted}
    assert {"a:2", "b:2"} < left
    assert not {"a:1", "b:1"} & left
    assert 2 * LEASE - 5 < redis_client.ttl(ENDED) <= 2 * LEASE


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("what", ["pass", "time out", "abort", "reset"])
def test_strikes(client: Client, redis_client: redis.Redis, what: str, twice: bool) -> None:
    """Wherever a signal strikes, and a second one, no party is left, and an end is carried through."""
    barrier = client.barrier("name", 1 if what == "pass" else 2)
    calls: dict[str, Callable[[], object]] = {
        "pass": barrier.wait,
        "time out": lambda: _in_vain(barrier),
        "abort": barrier.abort,
        "reset": barrier.reset,
    }
    session = client._driver.session
    calls[what]()
    at, again, struck = 1, 1, True
    while struck:
        if what in ("abort", "reset"):
            (barrier.reset if what == "abort" else barrier.abort)()
        with _struck_again(again if twice else 0):
            struck = strike(calls[what], at)
        wait_until(lambda: not (session.live or session.garbage.dead), 5, f"nothing, after {at}")
        assert not session.queues.places, at
        assert not any(line.waiters for line in session.lines.values()), at
        members = set(redis_client.zrange(WAITING, 0, -1)) - {b""}
        assert not members, at
        barrier.reset()
        at, again = at + 7, again % 60 + 3
    assert at > 200


def _in_vain(barrier: Barrier) -> None:
    with suppress(BrokenBarrierError):
        barrier.wait(0.001)


def _struck_again(at: int) -> Any:
    """Return a context in which a strike at a wait or end strikes its `give_up` as well."""
    stack, left = ExitStack(), [at] if at else []
    for step in (Arrive, End):
        give_up = step.give_up

        def struck(self: Any, give_up: Any = give_up) -> None:
            if left:
                if strike(lambda: give_up(self), left.pop()):
                    raise Struck
            else:
                give_up(self)

        stack.enter_context(mock.patch.object(step, "give_up", struck))
    return stack
