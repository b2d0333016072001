"""Tracebacks that a user can read: without the frames of this package and of redis-py.

The message of an error tells what they could. ``INTERLOCK_DEBUG=1`` keeps them, and the causes.
"""

from __future__ import annotations

import os

from interlock.errors import InterlockError

DEBUG = os.environ.get("INTERLOCK_DEBUG", "") not in ("", "0")


def shorten(error: BaseException) -> None:
    """Take the frames of this package from *error*, an error of its own.

    The error of redis-py or of the system that caused it goes too. It becomes a note, unless the
    message says the same. What the user's own code was handling meanwhile stays.
    """
    if DEBUG or not isinstance(error, InterlockError):
        return
    error.__traceback__ = None
    cause = error.__cause__
    if isinstance(cause, InterlockError):
        shorten(cause)
        return
    if cause is not None and not _foreign(cause):
        return  # it comes from the user's code: from a provider of credentials, say
    context = error.__context__
    while context is not None and _inside(context):
        context = context.__context__
    if cause is not None:
        told = str(cause).partition("\n")[0]
        if told and told not in str(error) and not hasattr(error, "__notes__"):
            error.add_note(f"caused by {type(cause).__name__}: {told}")
        error.__cause__ = None
        error.__suppress_context__ = False
    error.__context__ = context


def _foreign(cause: BaseException) -> bool:
    """Return whether *cause* is an error that this package has met, and not one of the user's."""
    module = type(cause).__module__
    internal = module.startswith("interlock._") or module.partition(".")[0] == "redis"
    return internal or isinstance(cause, OSError)


def _inside(context: BaseException) -> bool:
    """Return whether *context* was handled by this package: the user need not know of it."""
    trace = context.__traceback__
    if trace is None:
        return True
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] in ("interlock", "redis", "asyncio")
