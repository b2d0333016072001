"""Hints for users who mean another thing: another face, another unit, another number."""

from __future__ import annotations

import inspect
import sys
import warnings
import weakref
from _thread import TIMEOUT_MAX
from typing import TYPE_CHECKING, NoReturn, TypeVar

from interlock.errors import MisuseWarning

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

T = TypeVar("T")

LONG = 600.0
"""Seconds. A duration from here on is probably meant in milliseconds, unless it is a timedelta."""

_PASSED_THROUGH = frozenset({"interlock", "dataclasses"})
"""Packages whose lines a user did not write; `Options.replace` calls ours through the second."""
_passed = dict[str, bool]()
"""Modules that were found on a stack -> whether they belong to these packages."""
_told: weakref.WeakKeyDictionary[object, set[str]] = weakref.WeakKeyDictionary()


def publish(module: str, *classes: type) -> None:
    """Make *classes* public: they belong to *module*, and pickle refuses their objects.

    A constructor that only this package calls is shown without parameters. ``interlock.sync`` is
    the module `interlock`.
    """
    for cls in classes:
        cls.__module__ = module.removesuffix(".sync")
        if "__reduce__" not in vars(cls):
            setattr(cls, "__reduce__", _not_pickled)  # noqa: B010 - not for type checkers
        init = vars(cls).get("__init__")
        parameters = [] if init is None else list(inspect.signature(init).parameters.values())
        if any(parameter.name in _INTERNAL for parameter in parameters):
            signature = inspect.Signature(parameters[:1])
            setattr(init, "__signature__", signature)  # noqa: B010 - no such attribute for mypy


def _not_pickled(self: object) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__} objects belong to one process and cannot be pickled or copied: "
        "call interlock.connect(url) in each process, and send names"
    )


_INTERNAL = frozenset({"driver", "servers", "read", "acquiring", "_template"})
"""The first parameters of constructors that users do not call."""


class _Tested:
    """Warns if it dies in the same instruction of the user's in which it was made.

    It belongs to an object that was tested for truth. If only the test has used the object, as in
    ``if client.lock("x"):``, both die there. What a variable or an attribute keeps lives on, so
    nothing is said of ``self.lock or default``.
    """

    def __init__(self, message: str) -> None:
        self._message = message
        self._where = _instruction()

    def __del__(self) -> None:
        if _instruction() == self._where:
            warn(self._message, MisuseWarning)


def _instruction() -> tuple[int, int]:
    frame = caller_frame()
    return id(frame), frame.f_lasti


def always_true(advice: str) -> Callable[[type[T]], type[T]]:
    """Make a class whose truth test warns if the test alone has used the object.

    Args:
        advice: what to write instead.
    """

    def is_true(self: object) -> bool:
        message = f"{self!r} is always true, and was only tested for that: {advice}"
        setattr(self, "_tested", _Tested(message))  # noqa: B010 - it lives as long as its object
        return True

    def decorate(cls: type[T]) -> type[T]:
        setattr(cls, "__bool__", is_true)  # noqa: B010 - type checkers warn by themselves
        return cls

    return decorate


def check_long_lease(lease: object, scope: object = None) -> None:
    """Warn once for each *scope* of a *lease* in plain seconds that is `LONG`.

    A timedelta is meant as it is.
    """
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
    # Where nobody has imported asyncio there is no loop, and nobody has to wait for the import.
    asyncio = sys.modules.get("asyncio.events")
    loop = None if asyncio is None else asyncio._get_running_loop()  # noqa: SLF001 - documented
    if loop is not None:
        warn_once(
            loop,
            "blocked",
            "the sync face of interlock blocks the running event loop: use interlock.asyncio",
        )
    lowlevel = sys.modules.get("trio.lowlevel")
    # A module that is just being loaded may lack it.
    if getattr(lowlevel, "in_trio_run", bool)():
        warn_once(
            lowlevel.current_trio_token(),  # type: ignore[union-attr]
            "blocked",
            "the sync face of interlock blocks the running loop of trio: use interlock.trio",
        )


def warn_in_greenlet(scope: object) -> None:
    """Warn once for *scope* that the greenlets of a thread stop each other."""
    warn_once(
        scope,
        "greenlet",
        "interlock was imported while threading was not patched: a greenlet that waits for a lock "
        "stops all others of its thread, and so the one that has the lock. Patch before you import "
        "interlock, or acquire with a timeout",
    )


def warn_other_permits(name: str, found: int, wanted: int) -> None:
    """Warn that the server has another number of permits than the user's code names."""
    warn(
        f"{name!r} has {found} permits on the server, not {wanted} as permits={wanted} says: "
        f"set_permits({wanted}) changes it",
        MisuseWarning,
    )


def warn_other_count(name: str, found: int, wanted: int) -> None:
    """Warn that a latch was set up with another count than the user's code names."""
    warn(
        f"latch {name!r} was set up with the count {found}, not {wanted} as count={wanted} says: "
        "delete() it to begin anew",
        MisuseWarning,
    )


def warn_no_permits(kind: str, name: str) -> None:
    """Warn that a semaphore is waited for that nobody has set up."""
    warn(
        f"{kind} {name!r} has no permits, because nobody has set it up: this waits until somebody "
        f"does. Write client.{kind.replace(' ', '_')}({name!r}, permits=n) to set it up",
        MisuseWarning,
    )


def warn_too_many_permits(kind: str, name: str, wanted: int, permits: int) -> None:
    """Warn that more permits are wanted together than there are."""
    has = "1 permit" if permits == 1 else f"{permits} permits"
    warn(
        f"{kind} {name!r} has {has} in all, and {wanted} are wanted together: this cannot succeed "
        f"before set_permits({wanted}) or add_permits({wanted - permits})",
        MisuseWarning,
    )


def caller_frame(above: int = 1) -> FrameType:
    """Return the frame of the user's that called into this package.

    The search begins with the frame *above* frames above this one.
    """
    try:
        frame = sys._getframe(above)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    except ValueError:  # a greenlet, for example, may begin with a function of ours
        frame = sys._getframe(1)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    # Few instructions for each frame: an acquire that may be forgotten looks for its caller.
    while True:
        name = frame.f_globals.get("__name__")
        passes = _passed.get(name)  # type: ignore[arg-type] # any object may be asked for
        if passes is False or not (passes or _passes(name)):
            break
        before = frame.f_back
        if before is None:
            break
        frame = before
    return frame


def _passes(module: object) -> bool:
    """Return whether the frames of *module* are passed through; note it."""
    passes = str(module).partition(".")[0] in _PASSED_THROUGH
    if type(module) is str:
        _passed[module] = passes
    return passes


def first_time(scope: object, subject: str) -> bool:
    """Return whether this is the first call with *scope* and *subject*."""
    told = _told.setdefault(scope, set())
    if subject in told:
        return False
    told.add(subject)
    return True


def warn_once(scope: object, subject: str, message: str) -> None:
    """Warn of *subject* at the line of the user's that called into this package.

    Args:
        scope: an object for which to warn once; None to warn each time.
        subject: what is warned of.
        message: the warning.
    """
    if scope is None or first_time(scope, subject):
        warn(message, MisuseWarning)


def warn(message: str, category: type[Warning]) -> None:
    """Warn by *message* at the line of the user's that called into this package."""
    # By modules: the code of a dataclass's constructor is in no file. `skip_file_prefixes` came
    # with Python 3.12.
    level, frame = 1, inspect.currentframe()
    while frame and frame.f_back and _module_of(frame).partition(".")[0] in _PASSED_THROUGH:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
