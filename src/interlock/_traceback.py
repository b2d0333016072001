"""Tracebacks that a user can read: without the frames of this package and of redis-py.

The message of an error tells what they could. ``INTERLOCK_DEBUG=1`` keeps them, and the causes.

An exception gains a frame wherever it leaves one, but a bare ``raise`` adds none. So the methods in
which users wait call `shorten` last, and of what leaves them no frame of ours is shown.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from interlock.errors import InterlockError

if TYPE_CHECKING:
    from types import TracebackType

E = TypeVar("E", bound=BaseException)
DEBUG = os.environ.get("INTERLOCK_DEBUG", "") not in ("", "0")
_LIBRARIES = frozenset(
    {"interlock", "asyncio", "outcome", "redis", "selectors", "threading", "trio", "uvloop"}
)


def shorten(error: E) -> E:
    """Return *error*, an error of this package or an interruption, without the frames of ours.

    The error of redis-py or of the system that caused it goes too. It becomes a note, unless the
    message says the same. What the user's own code was handling meanwhile stays. An interruption is
    a Ctrl-C or a cancellation, unless a signal handler of the user's raised it.
    """
    if isinstance(error, InterlockError):
        if not DEBUG:
            _shorten_ours(error)
    elif not (DEBUG or isinstance(error, Exception) or passes_users(error.__traceback__)):
        error.__traceback__ = None
    return error


class _Outermost:
    """A block that an error leaves as `shorten` returns it."""

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            shorten(error)


outermost = _Outermost()
"""Around what a method does in which users wait.

One that acquires writes the handler out. It costs less, and a signal may strike as this block ends.
"""


def _shorten_ours(error: InterlockError) -> None:
    error.__traceback__, cause = None, error.__cause__
    if isinstance(cause, InterlockError):
        _shorten_ours(cause)
        return
    if cause is not None:
        module = type(cause).__module__
        if not (module.startswith(("interlock._", "redis.")) or isinstance(cause, OSError)):
            return  # it comes from the user's code: from a provider of credentials, say
        told = str(cause).partition("\n")[0]
        if told and told not in str(error) and not hasattr(error, "__notes__"):
            error.add_note(f"caused by {type(cause).__name__}: {told}")
        error.__cause__ = None
        error.__suppress_context__ = False
    context = error.__context__
    while context is not None and _handled_here(context.__traceback__):
        context = context.__context__
    error.__context__ = context


def passes_users(trace: TracebackType | None) -> bool:
    """Return whether one of the frames from *trace* on is neither ours nor of what we call."""
    while trace is not None:
        if _package(trace) not in _LIBRARIES:
            return True
        trace = trace.tb_next
    return False


def _handled_here(trace: TracebackType | None) -> bool:
    return trace is None or _package(trace) in ("interlock", "redis", "asyncio")


def _package(trace: TracebackType) -> str:
    return str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
