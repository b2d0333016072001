"""Values that each thread keeps for itself. They end with the thread.

Python's `threading.local` takes twice as long as a function in C, and every operation asks for its
owner. If another library (gevent, eventlet) has replaced `threading.local`, Python's way is used,
and each greenlet counts as a thread.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class _Here(threading.local):
    def __init__(self) -> None:
        self.kept: dict[object, Any] = {}


_here = _Here()


def of_thread_in_python(key: object, make: Callable[[], T], /) -> T:
    """Return the value that the calling thread keeps under *key*.

    If there is none, keep the result of *make*. A signal handler may ask for the same meanwhile:
    the value that was kept first stays.
    """
    kept = _here.kept
    try:
        return cast("T", kept[key])
    except KeyError:
        return cast("T", kept.setdefault(key, make()))


of_thread = of_thread_in_python
in_c = False
"""Whether `for_each` returns functions in C."""
if threading.local.__module__ == "_thread":
    with suppress(ImportError):  # there was no compiler, or the C part is older than its source
        from interlock._links._exchange import of_thread

        in_c = True


def for_each(make: Callable[[], T], /) -> Callable[[], T]:
    """Return a function that returns what *make* has made for the calling thread."""
    return partial(of_thread, object(), make)
