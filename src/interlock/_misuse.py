"""Hints for users who mean another thing: another library's name, another face, another unit."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
import weakref
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from interlock.errors import MisuseWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

T = TypeVar("T")

LONG_LEASE = 3600.0
"""Seconds. A longer lease is probably meant in milliseconds."""

_PASSED_THROUGH = frozenset({"interlock", "dataclasses"})
"""Packages whose lines a user did not write; `Options.replace` calls ours through the second."""
_told: weakref.WeakKeyDictionary[object, set[str]] = weakref.WeakKeyDictionary()

CLIENT_NAMES = {
    "get_lock": "lock(name)",
    "get_non_reentrant_lock": "lock(name, reentrant=False)",
    "get_fair_lock": "fair_lock(name)",
    "get_non_reentrant_fair_lock": "fair_lock(name, reentrant=False)",
    "get_read_write_lock": "read_write_lock(name)",
    "get_fenced_lock": "fenced_lock(name)",
    "get_spin_lock": "spin_lock(name)",
    "get_multi_lock": "multi_lock(*locks) or group_lock(group, values)",
    "get_red_lock": "red_lock(*locks)",
    "get_semaphore": "semaphore(name)",
    "get_permit_expirable_semaphore": "leased_semaphore(name)",
    "get_count_down_latch": "count_down_latch(name)",
    "get_id": "client_id",
    "create": "interlock.connect(url)",
    "shutdown": "close()",
    "is_shutdown": "close()",
    "aclose": "close()",
}
"""Redisson's names on a client, and ours."""

LOCK_NAMES = {
    "lock": "acquire()",
    "lock_interruptibly": "acquire()",
    "try_lock": "acquire(timeout=seconds), or trying(timeout=seconds) in a with statement",
    "try_acquire": "acquire(timeout=seconds), or trying(timeout=seconds) in a with statement",
    "unlock": "release()",
    "force_unlock": "force_release()",
    "is_locked": "locked()",
    "is_exists": "locked()",
    "is_held_by_current_thread": "owned()",
    "is_held_by_thread": "owned()",
    "get_hold_count": "hold_count()",
    "remain_time_to_live": "remaining()",
    "get_name": "name",
    "lock_and_get_token": "acquire() and hold.token",
    "try_lock_and_get_token": "acquire(timeout=seconds) and hold.token",
    "get_token": "hold.token",
    "read_lock": "read",
    "write_lock": "write",
    "extend": "set_lease(seconds), or extend(lease) of the lock",
    "expire": "extend(lease) of the lock",
    "reacquire": "extend(lease)",
    "do_release": "release()",
    "is_owned": "owned()",
}
"""Names of Redisson's and of redis-py's on a lock or a hold, and ours."""

_EITHER = ("acquire", "release", "locked", "owned", "hold_count", "remaining", "extend", "hold")
READ_WRITE_NAMES = {
    **{theirs: f"read or write, which have {ours}" for theirs, ours in LOCK_NAMES.items()},
    **{name: f"read.{name} or write.{name}" for name in (*_EITHER, "force_release")},
    "try_lock": "read or write, which have acquire(timeout=seconds)",
    "try_acquire": "read or write, which have acquire(timeout=seconds)",
    "read_lock": "read",
    "write_lock": "write",
    "get_name": "name",
}
"""Names of Redisson's on a read/write lock, and what a lock of ours would have, and ours."""

SEMAPHORE_NAMES = {
    "try_acquire": "acquire(n, timeout=seconds)",
    "try_release": "release(permit)",
    "reduce_permits": "add_permits(-n)",
    "get_permits": "permits()",
    "get_available_permits": "available_permits()",
    "get_acquired_permits": "acquired_permits()",
    "update_lease_time": "update_lease(permit, lease)",
    "lock": "acquire()",
    "try_lock": "acquire(n, timeout=seconds)",
    "unlock": "release()",
    "locked": "available_permits()",
    "is_exists": "available_permits()",
    "get_name": "name",
    "set_permits": "try_set_permits(n) if there is none, else add_permits(difference)",
}
"""Names of Redisson's on a semaphore, and ours."""

LATCH_NAMES = {
    "await": "wait()",
    "await_": "wait()",
    "get_count": "count()",
    "set_count": "try_set_count(count)",
    "is_exists": "count()",
    "acquire": "wait()",
    "release": "count_down()",
    "get_name": "name",
}
"""Names of Redisson's on a latch, and ours."""


class _Foreign:
    """Another library's name, in a class whose objects have no such attribute.

    Theory. A class with a ``__getattr__`` would need no list of names. But Python looks each
    attribute of such a class up without its caches: 3,000 of 50,000 instructions of an acquire and
    release.
    """

    __slots__ = ("_name", "_ours")

    def __init__(self, name: str, ours: str) -> None:
        self._name = name
        self._ours = ours

    def __repr__(self) -> str:
        return f"<use {self._ours}>"

    def __get__(self, thing: object, kind: type) -> NoReturn:
        text = f"{kind.__name__!r} object has no attribute {self._name!r}: use {self._ours}"
        # Without the name, or Python would guess another one.
        raise AttributeError(text, name="", obj=thing)


def _written(name: str) -> Iterator[str]:
    """Yield *name* as other libraries may write it: in camel case, for calls that do not block."""
    camel = re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name)
    yield from (name, camel, f"{name}_async", f"{camel}Async")


class Suggesting(type):
    """The class of those with `suggests`. It keeps other libraries' names out of help and `dir`."""

    __module__ = "interlock"  # help shows it

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if not _is_foreign(cls, name)]


def _is_foreign(cls: type, name: str) -> bool:
    return any(isinstance(vars(each).get(name), _Foreign) for each in cls.__mro__)


def suggests(names: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """Give a class AttributeErrors that name our method for another library's.

    Args:
        names: our name for each of theirs, in snake case. A user may also write theirs in camel
            case, and may add ``_async`` or ``Async``.
    """

    def members(self: object) -> list[str]:
        return [name for name in object.__dir__(self) if not _is_foreign(type(self), name)]

    def decorate(cls: type[T]) -> type[T]:
        ours = {name: name for name in dir(cls) if not name.startswith("_")}
        for name, instead in {**names, **ours}.items():
            for theirs in _written(name):
                if not hasattr(cls, theirs):
                    setattr(cls, theirs, _Foreign(theirs, instead))
        setattr(cls, "__dir__", members)  # noqa: B010 - not for type checkers
        return cls

    return decorate


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
        f"{type(self).__name__} objects belong to one process and cannot be pickled: "
        "call interlock.connect(url) in each process, and send names"
    )


class _NotGiven:
    def __getattr__(self, name: str) -> NoReturn:
        raise TypeError(
            "not made by its class: connect(url) makes a client, and client.lock(name) and its "
            "other factories make everything else"
        )


NOT_GIVEN: Any = _NotGiven()
"""Stands for an argument that only this package gives to a constructor.

The first use of it tells the user where to turn. A constructor that is called rightly checks
nothing.
"""

_INTERNAL = frozenset({"driver", "servers", "read", "acquiring", "_template"})
"""The first parameters of constructors that users do not call."""


def wants_async_with(cls: type[T]) -> type[T]:
    """Have ``with`` say that the objects of an asyncio class want ``async with``."""
    return _refuse(cls, ("__enter__", "__exit__"), "async with", "an asyncio client's")


def wants_with(cls: type[T]) -> type[T]:
    """Have ``async with`` say that the objects of a sync class want ``with``."""
    return _refuse(cls, ("__aenter__", "__aexit__"), "with", "a sync client's")


def _refuse(cls: type[T], methods: tuple[str, ...], statement: str, whose: str) -> type[T]:
    def refuse(self: object, *_: object) -> NoReturn:
        other = (
            "interlock.connect" if statement.startswith("async") else "interlock.asyncio.connect"
        )
        raise TypeError(
            f"{type(self).__name__} is {whose}: use `{statement}`, or a client of {other}()"
        )

    for name in methods:
        setattr(cls, name, refuse)
    return cls


def check_long_lease(lease: object, scope: object = None) -> None:
    """Warn once for each *scope* of a *lease* in plain seconds that is above an hour.

    A timedelta is meant as it is.
    """
    if isinstance(lease, int | float) and lease > LONG_LEASE:
        warn_once(
            scope,
            "lease",
            f"lease={lease!r} is {lease / 3600:.3g} hours: was it meant in milliseconds? "
            "Durations are seconds; a timedelta leaves no doubt",
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
            "the sync face of interlock blocks the running event loop, and all its tasks are "
            "one owner: use interlock.asyncio",
        )


def warn_other_permits(name: str, found: int, wanted: int) -> None:
    """Warn that the server has another number of permits than the user's code names."""
    warn(
        f"{name!r} has {found} permits on the server, not {wanted} as permits={wanted} says: "
        f"set_permits({wanted}) changes it",
        MisuseWarning,
    )


def warn_no_permits(kind: str, name: str) -> None:
    """Warn that a semaphore is waited for that nobody has set up."""
    warn(
        f"{kind} {name!r} has no permits, because nobody has set it up: this waits until somebody "
        f"does. Write client.{kind.replace(' ', '_')}({name!r}, permits=n) to set it up",
        MisuseWarning,
    )


def caller_frame() -> FrameType:
    """Return the frame of the user's that called into this package."""
    frame = sys._getframe(1)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    while frame.f_back and _module_of(frame).partition(".")[0] in _PASSED_THROUGH:
        frame = frame.f_back
    return frame


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
