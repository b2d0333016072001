"""Who leaves a block, and the type of what leaves it: of the sync face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._drivers.flow import current_owner

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, TypeAlias

    Exits: TypeAlias = Callable[
        [Any, type[BaseException] | None, BaseException | None, TracebackType | None], None
    ]
    """An ``__exit__``, of which each look-up gives the end of a new block."""


def caller() -> int:
    """Return the identity of the running thread's owner."""
    return current_owner().identity
