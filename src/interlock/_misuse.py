"""Warnings for users who mean another thing: another face, another unit, another number."""

from __future__ import annotations

import sys
import warnings
import weakref
from _thread import TIMEOUT_MAX
from typing import TYPE_CHECKING, NoReturn

from interlock.errors import MisuseWarning

if TYPE_CHECKING:
    from types import FrameType

LONG = 600.0
"""Seconds. A duration from here on is probably meant in milliseconds, unless it is a timedelta."""

_PASSED_THROUGH = frozenset({"interlock", "contextlib", "dataclasses"})
"""Packages whose lines a user did not write; `Options.replace` calls ours through the last."""
_told: weakref.WeakKeyDictionary[object, set[str]] = weakref.WeakKeyDictionary()


def publish(module: str, *classes: type) -> None:
    """Make *classes* public: they belong to *module*, and pickle refuses their objects.

    ``interlock.sync`` is the module `interlock`.
    """
    for cls in classes:
        cls.__module__ = module.removesuffix(".sync")
        if "__reduce__" not in vars(cls):
            setattr(cls, "__reduce__", _not_pickled)  # noqa: B010 - not for type checkers


def _not_pickled(self: object) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__} objects belong to one process and cannot be pickled or copied: "
        "call interlock.connect(url) in each process, and send names"
    )


def check_long_lease(lease: object, scope: object = None) -> None:
    """Warn once for each *scope* of a *lease* in plain seconds that is `LONG`."""
    if isinstance(lease, (int, float)) and lease >= LONG:
        warn_once(scope, "lease", _in_milliseconds("lease", lease))


def check_long_timeout(timeout: object) -> None:
    """Warn of a *timeout* in plain seconds that is `LONG`; `threading.TIMEOUT_MAX` is meant."""
    if isinstance(timeout, int | float) and timeout < TIMEOUT_MAX:
        warn_once(None, "timeout", _in_milliseconds("timeout", timeout))


def _in_milliseconds(what: str, given: float) -> str:
    return (
        f"{what}={given!r} is {given / 60:,.0f} minutes: was it meant in milliseconds? "
        "Durations are seconds; a timedelta leaves no doubt"
    )


def warn_in_event_loop() -> None:
    """Warn once for each event loop that it is blocked by the sync face."""
    blocks = "the sync face of interlock blocks the running"
    # Where nobody has imported asyncio there is no loop, and nobody has to wait for the import.
    asyncio = sys.modules.get("asyncio.events")
    loop = None if asyncio is None else asyncio._get_running_loop()  # noqa: SLF001 - documented
    if loop is not None:
        warn_once(loop, "blocked", f"{blocks} event loop: use interlock.asyncio")
    lowlevel = sys.modules.get("trio.lowlevel")
    # A module that is just being loaded may lack it.
    if getattr(lowlevel, "in_trio_run", bool)():
        token = lowlevel.current_trio_token()  # type: ignore[union-attr]
        warn_once(token, "blocked", f"{blocks} loop of trio: use interlock.trio")


def caller_frame(above: int = 1) -> FrameType:
    """Return the frame of the user's that called into this package.

    The search begins with the frame *above* frames above this one.
    """
    try:
        frame = sys._getframe(above)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    except ValueError:  # a greenlet, for example, may begin with a function of ours
        frame = sys._getframe(1)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    while (before := frame.f_back) is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _PASSED_THROUGH:
            break
        frame = before
    return frame


def warn_once(scope: object, subject: str, message: str) -> None:
    """Warn by *message* of *subject* once for *scope*, or each time for None."""
    known = set[str]() if scope is None else _told.setdefault(scope, set())
    if subject not in known:
        known.add(subject)
        warn(message)


def warn_at(place: str, message: str) -> None:
    """Warn by *message* at *place*, a line of the user's as ``file:line``; empty if nobody knows."""
    filename, _, number = place.rpartition(":")
    if filename:
        warnings.warn_explicit(message, MisuseWarning, filename, int(number))
    else:
        warnings.warn(message, MisuseWarning, stacklevel=2)


def warn(message: str, category: type[Warning] = MisuseWarning) -> None:
    """Warn by *message* at the line of the user's that called into this package."""
    frame = caller_frame(2)
    module, registry = frame.f_globals, frame.f_globals.setdefault("__warningregistry__", {})
    where = frame.f_code.co_filename, frame.f_lineno, str(module.get("__name__"))
    warnings.warn_explicit(message, category, *where, registry=registry)
