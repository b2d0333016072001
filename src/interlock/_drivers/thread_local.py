"""What each thread keeps for itself: it ends with the thread.

Python's `threading.local` takes twice as long as a function in C, and every operation asks for its
owner. Where another library has put its own in the place of that, each greenlet is a thread.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class _Here(threading.local):
    def __init__(self) -> None:
        self.kept: dict[object, Any] = {}


_here = _Here()


def of_thread_in_python(key: object, make: Callable[[], T], /) -> T:
    """Return what the calling thread keeps under *key*.

    If it is nothing, what *make* returns is kept there. A signal handler may ask for it meanwhile:
    the first one to be kept stays.
    """
    kept = _here.kept
    try:
        return cast("T", kept[key])
    except KeyError:
        return cast("T", kept.setdefault(key, make()))


of_thread = of_thread_in_python
if threading.local.__module__ == "_thread":
    with suppress(ImportError):  # there was no compiler, or it was run before the source changed
        from interlock._links._exchange import of_thread as of_thread_in_c

        of_thread = of_thread_in_c
