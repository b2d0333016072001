# Generated from interlock/asyncio/condition.py by tools/make_sync.py; change that file.
"""The condition."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar, cast

from interlock._core.model.effects import performed
from interlock._core.objects.condition import ALL, Notify, WaitFor
from interlock._drivers.block import ExitOfLock
from interlock._drivers.flow import current_owner
from interlock._drivers.process.line import note_line
from interlock._hints import hints
from interlock._naming import checked_result
from interlock._traceback import outermost
from interlock.errors import InterlockError
from interlock.options import check_number, check_timeout
from interlock.sync.lock import ending

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.options import Duration
    from interlock.sync.ending import Exits
    from interlock.sync.lock import Hold, Lock

T = TypeVar("T")
MOST = 1_000_000
"""The largest number of waiters in one call."""


@hints("client.condition(lock)")
class Condition:
    """A condition of a lock, as `threading.Condition`; made by `Client.condition`.

    ``with condition:`` holds the lock. In the block `wait` waits for a notification, and
    `notify` wakes who waits.

    Attributes:
        name: what it is called.
        lock: what its users hold.
    """

    __slots__ = ("__weakref__", "_core", "_driver", "lock", "name")

    def __init__(self, core: Any, lock: Lock) -> None:
        self._core, self.lock, self.name = core, lock, core.name
        self._driver: Any = lock._driver

    def __repr__(self) -> str:
        lock = f"{type(self.lock).__name__} {self.lock.name!r}"
        return f"<{type(self).__name__} {self.name!r} of {lock}>"

    def acquire(
        self,
        blocking: bool = True,
        timeout: Duration | None = None,
        *,
        lease: Duration | None = None,
    ) -> bool:
        """Acquire the lock; arguments, errors and cost as `Lock.acquire`."""
        acquired = self.lock.acquire(blocking, timeout, lease=lease)
        if acquired and (taken := self.lock._taken) is not None:
            note_line(taken, 1)
        return acquired

    def release(self) -> None:
        """Release the lock; errors and cost as `Lock.release`."""
        self.lock.release()

    def __enter__(self) -> Hold:
        hold = self.lock.__enter__()
        note_line(hold._hold, 1)
        return hold

    __exit__ = cast("Exits", ExitOfLock(ending))

    @property
    def hold(self) -> Hold | None:
        """Return this owner's hold of the lock, or None; after a `wait` it is another one."""
        return self.lock.hold

    def wait(self, timeout: Duration | None = None) -> bool:
        """Release the lock, wait for a notification, and acquire the lock again.

        However it ends, the lock is held again as deep as before, or HoldLostError is raised. That
        goes for a cancellation too: it is raised when the lock is held. The notification of a
        waiter that is cancelled goes to the next one.

        Returns:
            Whether it was woken within *timeout* seconds; the lock is waited for as long as it
            takes. True also if this client did not hear the server for a moment: ask again what
            was waited for, as `wait_for` does.

        Raises:
            NotHeldError: this owner does not hold the lock.
            HoldLostError: the lock was lost, or could not be acquired again.
            ConfigError: it is held as a member of a multi or red lock, which the wait would break.

        Cost:
            One round trip besides the lock's, and another one if the time is up. While it waits,
            one each 2 s for all who wait by this object.
        """
        driver = self._driver
        limit = check_timeout(blocking=True, timeout=timeout)
        with outermost:
            return self._wait(driver.session.clock() + limit)

    def _wait(self, deadline: float) -> bool:
        driver, owner = self._driver, current_owner()
        step = WaitFor(self._core, owner, deadline)
        try:
            notified: bool = driver.run(performed(step))
        except BaseException as error:
            with ExitStack() as unless_held:
                _ = unless_held.callback(step.give_up)
                if not isinstance(error, (InterlockError, GeneratorExit)):
                    # It was interrupted: the lock is held again before that is told.
                    try:
                        driver.run(step.undo())
                        _ = unless_held.pop_all()
                    except InterlockError as trouble:
                        error.add_note(f"interlock: {trouble}")
            raise
        return notified

    def wait_for(self, predicate: Callable[[], T], timeout: Duration | None = None) -> T:
        """Wait until *predicate* returns something true; the lock is held when it is called.

        Returns:
            What *predicate* returned last; something false when the time is up.
        """
        driver = self._driver
        deadline = driver.session.clock() + check_timeout(blocking=True, timeout=timeout)
        while True:
            result = _ask(predicate)
            if result or driver.session.clock() >= deadline:
                return result
            _ = self._wait(deadline)

    def notify(self, n: int = 1) -> None:
        """Notify *n* waiters, those that came first, if there are as many; one round trip.

        They go on when the lock is free. It is carried through when it is interrupted.

        Raises:
            NotHeldError: this owner does not hold the lock; nobody was notified.
            HoldLostError: the lock is lost; nobody was notified.
            ServerUnavailableError: no reply in time. It is still being sent in the background.
        """
        self._notify(check_number(n, "waiters", 0, MOST))

    def notify_all(self) -> None:
        """Notify all waiters; errors and cost as `notify`."""
        self._notify(ALL)

    def _notify(self, count: int) -> None:
        with outermost:
            self._driver.perform(Notify(self._core, current_owner(), count))


def _ask(predicate: Callable[[], T]) -> T:
    answer = predicate()
    return checked_result(answer, predicate)
