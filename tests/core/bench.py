"""A client for the core's unit tests: its clock stands still, and its world is played by hand."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from interlock._core.locks.lock import Lock
from interlock._core.model.holds import HELD, Hold, Owner
from interlock._core.queue.waiters import Waiters
from interlock._core.upkeep.session import Session
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Effect, Op, Step

LEASE = 30.0


class Play:
    """An operation that is performed by hand: `effect` is what it asks for now.

    Attributes:
        effect: what it asked for last.
        effects: all that it has asked for.
        result: what it returned.
        over: whether it has returned or raised.
    """

    def __init__(self, op: Op[Any] | Step[Any]) -> None:
        self._op = iter(op)
        self.effects: list[Effect] = []
        self.result: Any = None
        self.over = False
        self.answer(None)

    @property
    def effect(self) -> Any:
        """What it asks for now."""
        assert not self.over
        return self.effects[-1]

    def answer(self, reply: object) -> Play:
        """Send *reply*, or throw it if it is an exception; go on to the next effect or the end."""
        try:
            if isinstance(reply, BaseException):
                effect = self._op.throw(reply)
            else:
                effect = self._op.send(reply)
        except StopIteration as stop:
            self.over, self.result = True, stop.value
        except BaseException:
            self.over = True
            raise
        else:
            self.effects.append(effect)
        return self

    def abandon(self) -> None:
        """Close it."""
        self._op.close()
        self.over = True


class Bench:
    """One client: its session, with everything around it recorded.

    Attributes:
        now: what its clock shows.
        wakes: how often the background was woken.
    """

    def __init__(self, **options: object) -> None:
        self.now = 1000.0
        self.wakes = 0
        self.waiters = Waiters(nullcontext(), self)
        self.session = Session(
            options=Options(lease=LEASE).replace(**options),
            client_id="c0ffee",
            clock=lambda: self.now,
            random=lambda: 0.0,
            waiters=self.waiters,
            wake=self._wake,
            call_user=self._call_user,
        )
        self.owner = Owner("thread 'main'")
        self.lock = Lock(self.session, "x")

    def subscribe(self, channel: str) -> None:
        """Hear nothing of *channel*."""

    def unsubscribe(self, channel: str) -> None:
        """Hear nothing of it, either."""

    def _call_user(self, callback: Callable[[], object]) -> None:
        _ = callback()

    def _wake(self) -> None:
        self.wakes += 1

    def acquire(
        self, timeout: float = 10.0, lease: float | None = None, owner: Owner | None = None
    ) -> Play:
        """Play an acquire of the lock."""
        return Play(self.lock.acquire(owner or self.owner, self.now + timeout, lease))

    def held(self, lease: float | None = None, depth: int = 1, owner: Owner | None = None) -> Hold:
        """Return a hold that was just acquired."""
        for _ in range(depth):
            hold = self.acquire(lease=lease, owner=owner).answer(None).result
        return hold

    def hold(self, name: str = "x", *, owner: Owner | None = None, state: str = HELD) -> Hold:
        """Return a renewed hold of another lock that is valid for a lease."""
        lock = Lock(self.session, name)
        hold = lock.new_hold(owner or self.owner, None)
        hold.state, hold.depth, hold.valid_until = state, 1, self.now + LEASE
        self.session.holds.begin(hold)
        return hold
