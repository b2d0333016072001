"""A ``with`` block that is entered and left by calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any


class Block:
    """A ``with`` block in a generator, whose body goes on when an actor lets it."""

    def __init__(self, lock: Any, *, awaits: bool) -> None:
        """Say whether the block of *lock* is entered by ``async with``."""
        self._awaits = awaits
        self._generator: Any = _inside_async(lock) if self._awaits else _inside(lock)

    def enter(self) -> Any:
        """Enter; return what the ``with`` statement gave."""
        return anext(self._generator) if self._awaits else next(self._generator)

    def leave(self) -> Any:
        """Run the body to its end."""
        return anext(self._generator, None) if self._awaits else next(self._generator, None)

    def close(self) -> Any:
        """Leave before the body is at its end."""
        return self._generator.aclose() if self._awaits else self._generator.close()

    def fail(self, error: BaseException) -> Any:
        """Leave by *error*."""
        return self._generator.athrow(error) if self._awaits else self._generator.throw(error)


def _inside(lock: Any) -> Iterator[Any]:
    with lock as hold:
        yield hold


async def _inside_async(lock: Any) -> AsyncIterator[Any]:
    async with lock as hold:
        yield hold
