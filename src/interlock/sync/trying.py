# Generated from interlock/asyncio/trying.py by tools/make_sync.py; change that file.
"""A block that is entered whether or not something could be acquired."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from interlock._misuse import publish

if TYPE_CHECKING:
    from interlock.sync.ending import Exits

E = TypeVar("E")


class Trying(ABC, Generic[E]):
    """An acquire for ``with``, which gives a falsy object if it fails; made by ``trying``.

    For example ``with lock.trying(timeout=1) as hold: if hold: ...``. Leaving the block
    releases what was acquired.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        raise TypeError("nothing was acquired yet: use `with`")

    @abstractmethod
    def __enter__(self) -> E: ...

    if TYPE_CHECKING:
        __exit__ = cast("Exits", None)


publish("interlock.sync", Trying)
