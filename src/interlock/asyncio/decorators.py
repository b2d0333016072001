"""Decorators: each call of a function holds a lock."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from interlock._core.model.holds import Owner
from interlock._drivers.awaited import acquire_for, between
from interlock._misuse import always_true
from interlock._naming import check_async_function, checked_result, fixed_name, naming
from interlock.asyncio.hold import Hold
from interlock.asyncio.lock import Lock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from interlock._core.locks.lock import Lock as CoreLock
    from interlock._drivers.protocol import AwaitedDriver

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _OfLock:
    """A special method of the lock's own.

    Each look-up of it is a look-up on the lock, which tells one block from another.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, locked: Locked | None, kind: type[Locked]) -> Callable[..., Any]:
        if locked is not None:
            found: Callable[..., Any] = getattr(locked._named(), self._name)
            return found
        # As exit stacks look it up.
        method: Callable[..., Any] = getattr(Lock, self._name)

        def of_lock(locked: Locked, *args: object) -> Any:
            return method(locked._named(), *args)

        return of_lock


@always_true("it is a decorator and a block; `await client.lock(name).locked()` asks who holds it")
class Locked:
    """Holds a lock during each call of a function, or in an ``async with`` block.

    Made by `Client.locked`.
    """

    def __init__(self, _template: str, _make: Callable[[str], Lock]) -> None:
        self._template = _template
        self._make = _make
        self._lock: Lock | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._template!r}>"

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return *function* with each call holding the lock that its arguments name.

        Raises:
            TypeError: not a function for this face, or a generator function.
            ConfigError: the name has a field that is not a parameter of *function*.
        """
        check_async_function(function)
        name_of, make = naming(self._template, function), self._make

        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            async with make(name_of(args, kwargs)):
                return checked_result(await function(*args, **kwargs), function)

        return call

    if TYPE_CHECKING:

        async def __aenter__(self) -> Hold: ...
        async def __aexit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...
    else:
        __aenter__ = _OfLock("__aenter__")
        __aexit__ = _OfLock("__aexit__")

    def _named(self) -> Lock:
        """Return the lock of a with statement."""
        if self._lock is None:
            self._lock = self._make(fixed_name(self._template))
        return self._lock


class Once(Generic[T]):
    """Skips calls of a function while another one holds its lock; made by `Client.once`."""

    def __init__(
        self,
        _template: str,
        _driver: AwaitedDriver,
        _make: Callable[[str], CoreLock],
        _times: tuple[float, float | None, float | None],
        _otherwise: T,
    ) -> None:
        self._template = _template
        self._driver = _driver
        self._make = _make
        self._min_hold, self._max_hold, self._lease = _times
        self._otherwise = _otherwise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._template!r}>"

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | T]]:
        """Return *function* with calls skipped while the lock that their arguments name is held.

        Raises:
            TypeError: not a function for this face, or a generator function.
            ConfigError: the name has a field that is not a parameter of *function*.
        """
        check_async_function(function)
        name_of = naming(self._template, function)

        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R | T:
            # Each call is an owner of its own, which ends with it: the lock may outlive it.
            core, driver = self._make(name_of(args, kwargs)), self._driver
            caller = Owner(f"a call under {core.name!r}")
            began = driver.session.clock()
            step = core.acquire(caller, began, self._lease)
            hold = await acquire_for(driver, step, lambda _, hold: Hold(driver, hold))
            if hold is None:
                return self._otherwise
            if self._max_hold is not None:
                hold._end_within(self._max_hold)

            async def body() -> R:
                return checked_result(await function(*args, **kwargs), function)

            return await between(body, functools.partial(self._end, hold, began))

        return call

    async def _end(self, hold: Hold, began: float) -> None:
        """Release *hold*, or leave the lock locked until it was so for long enough."""
        rest = began + self._min_hold - self._driver.session.clock()
        if rest > 0:
            await hold._leave_locked(rest)
        else:
            await hold.release()
