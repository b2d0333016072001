"""At most n at once: a limit that all processes share."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from interlock._core.locks.errors import out_of_time
from interlock._drivers.block import Exit, is_over
from interlock._drivers.known_hold import of_block
from interlock._drivers.process.line import note_line
from interlock._drivers.tasks import current_owner
from interlock._hints import hints
from interlock._naming import check_function, checked_result, fixed_name, naming
from interlock._traceback import shorten
from interlock.asyncio import lock as locks
from interlock.asyncio.leased_semaphore import Permit, Takes
from interlock.errors import NotHeldError
from interlock.options import check_timeout, lease_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from interlock._core.objects.permits import LimitedPermits
    from interlock._drivers.aio import AsyncDriver
    from interlock.asyncio.ending import Exits
    from interlock.options import Duration

P = ParamSpec("P")
R = TypeVar("R")


@hints("client.limited(name, n)")
class Limited(locks._Entering, Takes):
    """Lets at most *n* blocks or calls run at once, in all processes together.

    Made by `Client.limited`. Any number of tasks may use one object, and a block may be left by
    another task. Each block gets a `Permit` of its own. A task that enters twice takes two.

    Waiters of all processes have their turns in order of arrival. Each brings its own *n* along, so
    a new number in the code takes effect with each process that starts.
    """

    __slots__ = ("_given", "_lease", "_make", "_template", "_timeout")

    def __init__(
        self,
        _driver: AsyncDriver,
        _template: str,
        _make: Callable[[str], LimitedPermits],
        _timeout: Duration | None,
        _lease: Duration | None,
    ) -> None:
        super().__init__(_driver, cast("Any", None))
        self._template, self._make = _template, _make
        self._given = _timeout, _lease
        self._timeout = check_timeout(blocking=True, timeout=_timeout)
        self._lease = lease_of(_lease, _driver)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._template!r}>"

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return *function* with each call taking a permit; errors are as of a `Locked`."""
        check_function(function, is_async=True)
        name_of, make = naming(self._template, function), self._make

        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            limit = Limited(self._driver, self._template, make, *self._given)
            limit._core = make(name_of(args, kwargs))
            async with limit as permit:
                note_line(permit._hold, 1)
                return checked_result(await function(*args, **kwargs), function)

        return call

    async def acquire(self, timeout: Duration | None = None) -> Permit:
        """Take a permit; release it from any task, or leave its ``async with`` block.

        Raises:
            AcquireTimeoutError: none became free in *timeout* seconds, or the object's own.
        """
        limit = self._timeout if timeout is None else check_timeout(blocking=True, timeout=timeout)
        try:
            core = self._named()
            permit = await self._taken(core, limit, self._lease)
            if permit is None:
                raise out_of_time(core.kind, core.name, 1, limit)  # noqa: TRY301 - see `shorten`
        except BaseException as error:
            shorten(error)
            raise
        return permit

    async def available(self) -> int:
        """Return how many more could start now; below 0 while too many run; one round trip.

        It is the object's own number that counts.
        """
        return self._named().limit - await self.running()

    async def running(self) -> int:
        """Return how many run, in all processes; one round trip.

        A place that a release has given to a waiter counts, too.
        """
        return await self._driver.run(self._named().running())

    @property
    def _parts(self) -> tuple[AsyncDriver, Any, float, float | None]:  # type: ignore[override]
        return self._driver, self._named(), self._timeout, self._lease

    async def _refused(self, driver: AsyncDriver, core: Any, limit: float) -> Permit:
        del driver
        raise out_of_time(core.kind, core.name, 1, limit)

    def _block_of(self, hold: Any, claim: Any) -> Permit:
        return of_block(Permit, self._driver, hold, self, claim)

    if TYPE_CHECKING:

        async def __aenter__(self) -> Permit: ...

    __aexit__ = cast("Exits", Exit(locks.ending))

    async def _leave_by_hand(self, error: BaseException | None) -> None:
        self._by_hand.forget(is_over)
        hold = self._by_hand.leave(current_owner().identity)
        if hold is None:
            raise NotHeldError(f"no block of {self!r} is open", name=self._template)
        await self._leave_hold(hold, None, error)

    def _named(self) -> LimitedPermits:
        core: Any = self._core
        if core is None:
            core = self._core = self._make(fixed_name(self._template))
        made: LimitedPermits = core
        return made
