"""What no face can see of a barrier: lost data, and strikes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.strikes import strike, struck_again
from tests.support.patience import wait_until

from interlock import BrokenBarrierError
from interlock._core.objects.barrier import Arrive, End

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from interlock import Barrier, Client

WAITING = "interlock_barrier:{name}"


def test_lost_data_lets_nobody_pass(client: Client, redis_client: redis.Redis) -> None:
    """A party that the server does not know any more learns that, and does not count again."""
    core: Any = client.barrier("name", 2)._core

    def arrives(party: Any, *look: str) -> Any:
        call = core.arrive(party, *look)
        return client._driver.run(iter(call))

    party = core.party()
    assert arrives(party) is None
    redis_client.flushall()
    assert arrives(party, "1") == -1
    assert arrives(core.party()) is None
    assert arrives(party) == -1


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
        with struck_again(again if twice else 0, Arrive, End):
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
