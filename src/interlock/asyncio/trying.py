"""A block that is entered whether or not something could be acquired."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from interlock._misuse import publish

if TYPE_CHECKING:
    from interlock.asyncio.ending import Exits

E = TypeVar("E")


class Trying(ABC, Generic[E]):
    """An acquire for ``async with``, which gives a falsy object if it fails; made by ``trying``.

    For example ``async with lock.trying(timeout=1) as hold: if hold: ...``. Leaving the block
    releases what was acquired.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        raise TypeError("nothing was acquired yet: use `async with`")

    @abstractmethod
    async def __aenter__(self) -> E: ...

    if TYPE_CHECKING:
        __aexit__ = cast("Exits", None)


publish("interlock.asyncio", Trying)
