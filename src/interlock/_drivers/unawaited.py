"""What a method of the asyncio face returns until it is awaited: it has no truth value."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from interlock._misuse import publish
from interlock._traceback import outermost

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractAsyncContextManager
    from types import CoroutineType, TracebackType

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound="AbstractAsyncContextManager[object, None]")


_STEPPED = inspect.CORO_RUNNING, inspect.CORO_SUSPENDED


class Unawaited(Coroutine[Any, Any, T]):
    """The result of a method that was called and not awaited yet.

    A coroutine is always true, so ``if lock.acquire():`` would go on without the lock. This raises.
    A scheduler may step it as its coroutine, whose name, frame and state it has.
    """

    __slots__ = ("__weakref__", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def __bool__(self) -> bool:  # to type checkers: NoReturn would hide from them what follows
        coroutine = cast("CoroutineType[Any, Any, T]", self._coroutine)
        asks = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        # From Python 3.14 on the `repr` of a task asks. Who asks after the end wants the result.
        if inspect.getcoroutinestate(coroutine) in _STEPPED or asks == _TASKS:
            return True
        coroutine.close()
        raise TypeError(
            f"{coroutine.__name__} has not run yet and has no truth value: write `await` in front "
            "of it"
        )

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any, /) -> Any:
        """Go on with *value*."""
        return self._coroutine.send(value)

    @property  # a call would leave its frame in the traceback of a cancellation
    def throw(self) -> Callable[..., Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Go on with an error."""
        return self._coroutine.throw

    def close(self) -> None:
        """Give up."""
        self._coroutine.close()

    if not TYPE_CHECKING:  # checkers shall not know of it

        def __getattr__(self, name: str) -> object:
            """Return what schedulers and `inspect.getcoroutinestate` ask of a coroutine."""
            return getattr(self._coroutine, name)


_TASKS = "asyncio.base_tasks"


class Attempt(Unawaited[H]):
    """An acquire that gives a hold: ``await`` it, or enter it by ``async with``.

    Leaving the block releases the hold, by any task.
    """

    _hold: H | None = None

    async def __aenter__(self) -> H:
        hold = self._hold = await self._coroutine
        return cast("H", await hold.__aenter__())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._hold is not None:
            with outermost:
                await self._hold.__aexit__(kind, raised, trace)


publish("interlock.asyncio", Attempt, Unawaited)


def attempt(function: Callable[P, Coroutine[Any, Any, H]]) -> Callable[P, Attempt[H]]:
    """Make *function* return what may be awaited or entered."""

    @wraps(function)
    def attempted(*args: P.args, **kwargs: P.kwargs) -> Attempt[H]:
        return Attempt(function(*args, **kwargs))

    return attempted


def awaited(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Unawaited[T]]:
    """Make *function* return what must be awaited: a truth test of it raises."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> Unawaited[T]:
        return Unawaited(function(*args, **kwargs))

    return called
