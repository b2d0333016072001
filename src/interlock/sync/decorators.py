# Generated from interlock/asyncio/decorators.py by tools/make_sync.py; change that file.
"""Decorators: each call of a function holds a lock."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from interlock._core.keeping import keep
from interlock._misuse import wants_with
from interlock._naming import check_function, fixed_name, naming
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from interlock.sync.hold import Hold
    from interlock.sync.lock import Lock

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@wants_with
class Locked:
    """Holds a lock during each call of a function, or in a ``with`` block; made by `Client.locked`."""

    def __init__(self, _template: str, _make: Callable[[str], Lock]) -> None:
        self._template = _template
        self._make = _make
        self._lock: Lock | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._template!r}>"

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Return *function* with each call holding the lock that its arguments name.

        Raises:
            TypeError: not a function for this face, or a generator function.
            ConfigError: the name has a field that is not a parameter of *function*.
        """
        check_function(function)
        name_of, make = naming(self._template, function), self._make

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with make(name_of(args, kwargs)):
                return function(*args, **kwargs)

        return call

    if TYPE_CHECKING:

        def __enter__(self) -> Hold: ...
        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...
    else:
        # What the lock's own methods are, so that a block is left as if it had been entered there.
        __enter__ = property(lambda self: self._named().__enter__)
        __exit__ = property(lambda self: self._named().__exit__)

    def _named(self) -> Lock:
        if self._lock is None:
            self._lock = self._make(fixed_name(self._template))
        return self._lock


class Once(Generic[T]):
    """Skips calls of a function while another one holds its lock; made by `Client.once`."""

    def __init__(
        self, _template: str, _make: Callable[[str], Lock], _min_hold: float, _otherwise: T
    ) -> None:
        self._template = _template
        self._make = _make
        self._min_hold = _min_hold
        self._otherwise = _otherwise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._template!r}>"

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | T]:
        """Return *function* with calls skipped while the lock that their arguments name is held.

        Raises:
            TypeError: not a function for this face, or a generator function.
            ConfigError: the name has a field that is not a parameter of *function*.
        """
        check_function(function)
        name_of = naming(self._template, function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | T:
            # Each call is an owner of its own: the lock may outlive it.
            lock = self._make(name_of(args, kwargs))
            if not lock.acquire(timeout=0):
                return self._otherwise
            until = lock.driver.session.clock() + self._min_hold
            try:
                result = function(*args, **kwargs)
            except BaseException as error:
                try:
                    self._end(lock, until)
                except InterlockError as trouble:
                    # The function's own exception goes on; it is told what else went wrong.
                    error.add_note(f"interlock: {trouble}")
                raise
            self._end(lock, until)
            return result

        return call

    @staticmethod
    def _end(lock: Lock, until: float) -> None:
        """Release *lock*, or leave it locked until *until*."""
        driver, hold = lock.driver, lock.core_hold()
        rest = until - driver.session.clock()
        if rest > 0 and hold is not None:
            driver.run(keep(driver.session, hold, rest))
        else:
            lock.release()
