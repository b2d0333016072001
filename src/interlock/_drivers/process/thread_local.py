"""Values that each thread keeps for itself. They end with the thread.

Python's `threading.local` takes twice as long as a function in C, and every operation asks for its
owner. If another library (gevent, eventlet) has replaced `threading.local`, Python's way is used,
and each greenlet counts as a thread.

It counts as one without that, too: a program may patch after it has imported interlock, or never.
If all greenlets of a thread were one owner, all of them could enter the lock of one.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_KEPT = "_interlock_kept"
"""The attribute of a greenlet that has its values."""
_modules = sys.modules


class _Here(threading.local):
    def __init__(self) -> None:
        self.kept: dict[object, Any] = {}


_here = _Here()
_patched = threading.local.__module__ != "_thread"


def running_greenlet() -> Any:
    """Return the greenlet that runs, if `threading` does not know of it; else None.

    A greenlet without a parent is that of its thread.
    """
    # A module that is just being loaded may lack it.
    current = None if _patched else getattr(_modules.get("greenlet"), "getcurrent", None)
    here = None if current is None else current()
    return None if here is None or here.parent is None else here


def of_thread_in_python(key: object, make: Callable[[], T], /) -> T:
    """Return the value that the calling thread or greenlet keeps under *key*.

    If there is none, keep the result of *make*. A signal handler may ask for the same meanwhile:
    the value that was kept first stays.
    """
    greenlet = running_greenlet() if "greenlet" in _modules else None
    kept = _here.kept if greenlet is None else greenlet.__dict__.setdefault(_KEPT, {})
    try:
        return cast("T", kept[key])
    except KeyError:
        return cast("T", kept.setdefault(key, make()))


def for_each_in_python(make: Callable[[], T], /) -> Callable[[], T]:
    """Return a function that returns what *make* has made for the calling thread or greenlet."""
    return partial(of_thread_in_python, object(), make)


of_thread = of_thread_in_python
for_each = for_each_in_python
in_c = False
"""Whether `for_each` returns functions in C."""
if not _patched:
    with suppress(ImportError):  # there was no compiler, or the C part is older than its source
        from interlock._links._exchange import of_thread as of_thread_in_c
        from interlock._links._exchange import of_thread_unless

        def of_greenlet(key: object, make: Callable[[], T], /) -> T:
            """Return the same where greenlets may run."""
            own = of_thread_in_c if running_greenlet() is None else of_thread_in_python
            return own(key, make)

        def for_each_in_c(make: Callable[[], T], /) -> Callable[[], T]:
            """Return the same function in C; it calls Python where greenlets may run."""
            return partial(of_thread_unless, object(), make, _modules, "greenlet", of_greenlet)

        of_thread = of_greenlet
        for_each = for_each_in_c
        in_c = True
