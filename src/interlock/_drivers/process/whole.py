"""Calls that a signal cannot leave half done: what they have begun is undone.

Python runs signal handlers between two instructions, so also before the first instruction of a
function. No ``try`` in that function covers this place. A caller in C does: no handler runs between
the end of a call and what C does next.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache, update_wrapper, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from interlock._traceback import shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Step

F = TypeVar("F", bound="Callable[..., Any]")

MAX_UNDO = 10
"""How often an undo is tried, if it is interrupted itself."""


def whole_in_python(call: F, undo: Callable[..., object], /) -> F:
    """Return a function that calls *call*, and if that raises, *undo* with the same arguments.

    *undo* may be called again if it is interrupted. Not covered is the first instruction.
    """

    @wraps(call)
    def called(*args: Any, **named: Any) -> Any:
        try:
            return call(*args, **named)
        except BaseException as error:
            for _ in range(MAX_UNDO):
                with suppress(BaseException):
                    undo(*args, **named)
                    break
            shorten(error)  # it has the frame of this function
            raise

    return cast("F", called)


def give_up(step: Step[Any]) -> None:
    """Leave nothing behind of *step*, though a second signal may come."""
    try:
        step.give_up()
    finally:
        step.give_up()


whole = whole_in_python
with suppress(ImportError):  # there was no compiler, or the C part is older than its source
    from interlock._links._exchange import whole


def whole_method(call: F, undo: Callable[..., object], /) -> F:
    """Return what `whole` does, as a method.

    A function in C is not bound to an object as a method is. A cache of `functools` is, without a step
    in Python where a signal could strike. This one has no room, so it keeps nothing.
    """
    method: Any = lru_cache(maxsize=0)(whole(call, undo))
    return cast("F", update_wrapper(method, call))
