"""Decorators: each call of a function holds a lock."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from interlock._core.locks.base import Lock as CoreLock
from interlock._core.locks.transfer import LeaveLocked
from interlock._core.model.hold import Owner
from interlock._drivers.known_hold import of_block
from interlock._drivers.process.whole import give_up
from interlock._hints import hints
from interlock._naming import (
    check_function,
    check_unreachable,
    checked_result,
    naming,
)
from interlock._traceback import shorten
from interlock.asyncio.ending import inside, leave
from interlock.asyncio.lock import Hold, Lock
from interlock.options import MIN_LEASE, check_name, lease_of, lease_within

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from interlock._drivers.aio import AsyncDriver

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@hints("client.locked(name)")
class Locked(Generic[T]):
    """Holds a lock during each call of a function; made by `Client.locked`."""

    def __init__(self, _template: str, _make: Callable[[str], Lock], _if_unreachable: str) -> None:
        check_unreachable(_if_unreachable)
        self._template = _template
        self._make = _make
        self._if_unreachable = _if_unreachable

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._template!r}>"

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | T]]:
        """Return *function* with each call holding the lock that its arguments name.

        Raises:
            TypeError: not a function for this face, or a generator function.
            ConfigError: the name has a field that is not a parameter of *function*.
        """
        check_function(function, is_async=True)
        name_of = naming(self._template, function)

        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R | T:
            async def body() -> R:
                return checked_result(await function(*args, **kwargs), function)

            lock = self._make(name_of(args, kwargs))
            skipped = cast("T", None)
            return await inside(lock, body, lock.name, self._if_unreachable, skipped)

        return call


@hints("client.single(name)")
class Single(Generic[T]):
    """Skips calls of a function while another one holds its lock; made by `Client.single`."""

    def __init__(
        self,
        _template: str,
        _driver: AsyncDriver,
        _holds: tuple[float, float | None],
        _otherwise: T,
        _if_unreachable: str,
    ) -> None:
        check_unreachable(_if_unreachable)
        self._template = check_name(_template)
        self._driver = _driver
        self._min_hold, self._max_hold = _holds
        self._otherwise = _otherwise
        self._if_unreachable = _if_unreachable

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._template!r}>"

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | T]]:
        """Return *function* with calls skipped while the lock that their arguments name is held."""
        check_function(function, is_async=True)
        name_of, driver = naming(self._template, function), self._driver

        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R | T:
            async def body() -> R:
                return checked_result(await function(*args, **kwargs), function)

            name = check_name(name_of(args, kwargs))
            block = _Call(driver, name, self._min_hold, self._max_hold)
            return await inside(block, body, name, self._if_unreachable, self._otherwise)

        return call


class _Call:
    """The block of one call, which gets None if the lock is held.

    Each call is an owner of its own, which ends with it: the lock may outlive it.
    """

    def __init__(
        self, driver: AsyncDriver, name: str, min_hold: float, max_hold: float | None
    ) -> None:
        self._driver, self._name = driver, name
        self._min_hold, self._max_hold = min_hold, max_hold
        self._until = 0.0
        self._hold: Hold | None = None
        self._caller = Owner(f"a call under {name!r}")

    async def __aenter__(self) -> Hold | None:
        driver, session = self._driver, self._driver.session
        lock = CoreLock(session, self._name, session.key(self._name), reentrant=False)
        lease = lease_of(lease_within(self._max_hold, None, session.options), driver)
        began = session.clock()
        self._until = began + self._min_hold
        step = lock.acquiring().of(lock, self._caller, began, lease)
        try:
            return self._got(await driver.perform(step))
        except BaseException as error:
            give_up(step)
            shorten(error)
            raise

    def _got(self, hold: Any) -> Hold | None:
        if hold is None:
            return None
        face = of_block(Hold, self._driver, hold, None)
        if self._max_hold is not None:
            face._end_within(self._max_hold)
        self._hold = face
        return face

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lock, or leave it locked until it was so for long enough."""
        hold, rest = self._hold, self._until - self._driver.session.clock()
        if hold is not None and rest > 0:
            await leave(
                self._driver, LeaveLocked(hold._hold, max(rest, MIN_LEASE)), error, once=True
            )
        elif hold is not None:
            await hold.__aexit__(kind, error, trace)
