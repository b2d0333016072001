"""Who leaves a block, and the type of what leaves it: of the asyncio face."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._drivers.tasks import current_owner

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CoroutineType, TracebackType
    from typing import Any, TypeAlias

    Exits: TypeAlias = Callable[
        [Any, type[BaseException] | None, BaseException | None, TracebackType | None],
        CoroutineType[Any, Any, None],
    ]
    """An ``__aexit__``, of which each look-up gives the end of a new block."""


def caller() -> int:
    """Return the identity of the running task's owner; 0 if there is none."""
    try:
        return current_owner().identity
    except RuntimeError:
        return 0
