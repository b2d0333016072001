"""Hints for users who know another library: what they call a thing, and what it is here.

One class decorator, `hints`, gives them. Nothing of it is in `dir` of an object or in a signature,
nor in `help`, but for what must not be set.
"""

from __future__ import annotations

import inspect
import re
import sys
from difflib import get_close_matches
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from interlock._traceback import DEBUG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")

_DATA = "a client of redis-py's for data: this one makes locks"
_KEY = "a client of redis-py's: that is of the key, not of the lock"
_RATE = (
    "limited(name, n), which limits how many run at once; for n in each second, permits "
    "that end by themselves: leased_semaphore(name, permits=n).acquire(lease=1)"
)
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
    "latch": "count_down_latch(name)",
    "mutex": "lock(name)",
    "rw_lock": "read_write_lock(name)",
    "get_id": "client_id",
    "create": "interlock.connect(url)",
    "shutdown": "close()",
    "is_shutdown": "close()",
    "aclose": "close()",
    "acquire": "lock(name).acquire()",
    "release": "lock(name).release()",
    "lock_async": "lock(name)",
    "get_rate_limiter": _RATE,
    "rate_limiter": _RATE,
    "rate_limit": _RATE,
    **dict.fromkeys(("get_bucket", "get_map", "get_set", "get_list", "get_queue"), _DATA),
    **dict.fromkeys(("get_atomic_long", "get_topic", "get_keys", "get_deque"), _DATA),
    "is_shutting_down": "close()",
    "reset_all": "force_release(name, holder=...), for what `interlock list` shows",
    "get": _DATA,
    "set": _DATA,
    "ping": "check()",
    "disconnect": "close()",
}
"""Names of Redisson's and of redis-py's on a client, and ours."""

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
    "reset": "force_release()",
    "delete": "force_release()",
    "unlink": "force_release()",
    "rename": _KEY,
    "add_listener": "hold.on_lost(callback), or client.observe(observer)",
    "new_condition": "client.condition(lock)",
    "lock_counter": "hold_count()",
    "is_lock_held": "locked()",
    "key": "name",
    "local": "hold, which has the holder",
    "token": "hold.token",
    "id": "hold.holder",
    "get_owner_id": "hold.holder",
    "is_owned": "owned()",
    "renew": "extend(lease); a lock without a lease is renewed by itself",
    "refresh": "extend(lease); a lock without a lease is renewed by itself",
    "ttl": "remaining()",
}
"""Names that other libraries have on a lock or a hold, and ours."""

HOLD_NAMES = {
    **LOCK_NAMES,
    "acquire": "acquire() of the lock; a hold is what that gives, and falsy if it was not acquired",
    "locked": "valid, or locked() of the lock",
    "is_locked": "valid, or locked() of the lock",
    "owned": "valid",
    "is_valid": "valid",
    "hold_count": "depth",
    "remain_time_to_live": "remaining",
    "ttl": "remaining",
    "expires_at": "remaining",
    "fencing_token": "token",
    "renew": "set_lease(seconds); a hold without a lease is renewed by itself",
    "refresh": "set_lease(seconds); a hold without a lease is renewed by itself",
}
"""Names that users look for on a hold, and ours."""

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
    "value": "available_permits()",
    "bounded": "available_permits()",
    "expire": _KEY,
    "rename": _KEY,
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

EVENT_NAMES = {"get_name": "name", "trigger": "set()", "reset": "clear()"}
"""Names on an event, and ours."""

_LEASE = ("lease", "lease=seconds (a lock without it is renewed until it is released)")
_TIMEOUT = ("timeout", "timeout=seconds")
_PERMITS = ("permits", "permits=n")
_NUMBER = ("n", "n=number")
_CANDIDATE = ("candidate", "candidate=name")
_OWNER = ("owner", "owner=name")
_WOKEN = (
    "timeout",
    "nothing: a message wakes a waiter, and connect(poll_cap=seconds) limits the pause",
)
_UNIT = "nothing: durations are seconds, or a timedelta"

KEYWORDS: dict[str, tuple[tuple[str, str], ...]] = {
    **dict.fromkeys(("blocking_timeout", "wait_time", "acquire_timeout", "max_wait"), (_TIMEOUT,)),
    **dict.fromkeys(("expire", "expires", "px", "ex", "lease_time"), (_LEASE,)),
    "ttl": (("idle", "idle=seconds, which removes what nobody has used for so long"), _LEASE),
    "idle": (("ttl", "ttl=seconds"),),
    **dict.fromkeys(("auto_release_time", "lease_duration", "lock_timeout"), (_LEASE,)),
    **dict.fromkeys(("auto_renewal", "auto_renew", "renew", "lock_renew_interval"), (_LEASE,)),
    **dict.fromkeys(("value", "initial_value", "max_permits"), (_PERMITS, ("count", "count=n"))),
    **dict.fromkeys(
        ("count", "n", "limit", "max", "maximum"), (_PERMITS, _NUMBER, ("count", "count=n"))
    ),
    **dict.fromkeys(("permits", "max_concurrency"), (_NUMBER, ("count", "count=n"))),
    **dict.fromkeys(("identity", "candidate_id"), (_CANDIDATE,)),
    **dict.fromkeys(
        ("token", "id", "owner_id", "thread_id"),
        (_OWNER, ("lease", "client.lock(name, owner=word)")),
    ),
    **dict.fromkeys(("unit", "time_unit"), (("lease", _UNIT), ("timeout", _UNIT))),
    **dict.fromkeys(("poll_interval", "sleep", "retry_delay", "retry_interval"), (_WOKEN,)),
    "blocking": (("reentrant", "client.try_lock(name) for one try"), _TIMEOUT),
}
"""Keywords of other libraries; for each, parameters of ours and what to write if there is one."""
ELSEWHERE = {
    ("semaphore", "lease"): "client.leased_semaphore(name): its permits have leases",
}
"""Keywords that another factory than the called one takes."""


def _written(name: str) -> Iterator[str]:
    """Yield *name* as other libraries may write it: in camel case, for calls that do not block."""
    camel = re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name)
    yield from (name, camel, f"{name}_async", f"{camel}Async")


def _spellings(cls: type, names: Mapping[str, str]) -> dict[str, str]:
    """Return our name for each spelling of another library's, and of our own."""
    ours = {name: name for name in dir(cls) if not name.startswith("_")}
    table: dict[str, str] = {}
    for name, instead in {**names, **ours}.items():
        for theirs in _written(name):
            later = theirs.endswith(("_async", "Async"))
            await_it = f"{instead}, which interlock.asyncio's clients await" if later else instead
            table.setdefault(theirs, await_it)
    return table


def hints(
    names: Mapping[str, str] | None = None,
    *,
    made_by: str,
    calls: Iterable[str] = (),
    decorator: str = "",
    block: str = "",
) -> Callable[[type[T]], type[T]]:
    """Make a class name our word for a name that it lacks.

    Args:
        names: our name for each of another library's, in snake case. A user may also write theirs
            in camel case, and may add ``_async`` or ``Async``.
        made_by: what makes its objects; users do not call the class.
        calls: its methods that tell of keywords that they do not take.
        decorator: what to write in place of an object as a decorator; ``{}`` stands for its name.
        block: what to write in place of a ``with`` statement of an object.
    """

    def decorate(cls: type[T]) -> type[T]:
        _set(cls, "__getattr__", _attributes(cls, names or {}))
        _set(cls, "__init__", _made_by(cls, made_by))
        for name in calls:
            _set(cls, name, told(vars(cls)[name]))
        if decorator:
            _set(cls, "__call__", _refusal("no decorator", decorator))
        if block:
            for name in ("__enter__", "__exit__", "__aenter__", "__aexit__"):
                if not hasattr(cls, name):
                    _set(cls, name, _refusal("not for a with statement itself", block))
        return cls

    return decorate


def _hide_unknown(function: Any) -> None:
    whole = inspect.signature(function)
    shown = [each for each in whole.parameters.values() if each.name not in ("more", "unknown")]
    function.__signature__ = whole.replace(parameters=shown)


def _set(cls: type, name: str, value: object) -> None:
    setattr(cls, name, value)  # type checkers shall not know of it


def _attributes(cls: type, names: Mapping[str, str]) -> Callable[[object, str], NoReturn]:
    table = _spellings(cls, names)

    def __getattr__(self: object, name: str) -> NoReturn:  # noqa: N807 - it becomes that
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name not in table:
            raise AttributeError(text, name=name, obj=self)
        # Without the name, or Python would guess another one.
        raise AttributeError(f"{text}: use {table[name]}", name="", obj=self)

    return __getattr__


def _made_by(cls: type, maker: str) -> Callable[..., None]:
    init: Callable[..., None] = vars(cls)["__init__"]

    @wraps(init)
    def __init__(self: object, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that
        try:
            init(self, *args, **kwargs)
        except (AttributeError, TypeError):
            if args and type(args[0]).__module__.startswith("interlock._"):
                raise
            raise TypeError(f"{cls.__name__} is not made by its class: use {maker}") from None

    return __init__


def _refusal(what: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *_: object) -> NoReturn:
        kind, name = type(self).__name__, getattr(self, "name", "name")
        raise TypeError(f"a {kind} is {what}: use {instead.format(repr(name))}")

    return refuse


def told(function: F) -> F:
    """Return *function*, which tells of keywords that it does not take.

    An error about an argument loses the frames of this package.

    A wrapper costs each call a tenth of an acquire. A function on the hot path takes such arguments
    itself, as ``*more`` and ``**unknown``, and raises `unknown_arguments`. Then only its signature
    is made right.
    """
    if "unknown" in function.__annotations__:
        _hide_unknown(function)
        return function

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, OverflowError) as error:
            # Only the call itself says so of its function.
            if isinstance(error, TypeError) and str(error).startswith(
                f"{function.__qualname__}() "
            ):
                raise TypeError(_explained(function, error, kwargs)) from None
            if not DEBUG:
                error.__traceback__ = None
            raise

    return cast("F", called)


def unknown_arguments(function: Callable[..., Any], given: Mapping[str, object]) -> TypeError:
    """Return the error for arguments that *function* does not have: keywords *given*, or others."""
    if given:
        error = (
            f"{function.__qualname__}() got an unexpected keyword argument {next(iter(given))!r}"
        )
    else:
        error = f"{function.__qualname__}() got too many positional arguments"
    return TypeError(_explained(function, TypeError(error), given))


def _explained(function: Callable[..., Any], error: TypeError, given: Mapping[str, object]) -> str:
    """Return *error*, which the call of *function* has raised, with what to write."""
    parameters = inspect.signature(function).parameters
    keywords = [
        name for name, each in parameters.items() if each.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for keyword in given:
        if keyword not in parameters:
            return f"{error}: {_instead(function.__name__, keyword, parameters)}"
    if "positional argument" in str(error) and "missing" not in str(error):
        return f"{error}: name the others, as in {'=..., '.join(keywords)}=..."
    return str(error)


def _instead(method: str, keyword: str, parameters: Mapping[str, object]) -> str:
    if (method, keyword) in ELSEWHERE:
        return f"use {ELSEWHERE[method, keyword]}"
    for parameter, text in KEYWORDS.get(keyword, ()):
        if parameter in parameters:
            return f"use {text}"
    return did_you_mean(keyword, [name for name in parameters if name != "self"])


def missing(module: str, name: str, instead: str) -> AttributeError | ImportError:
    """Return the error for *name*, which the ``__getattr__`` of *module* was asked for.

    Args:
        module: its name.
        name: what it lacks.
        instead: what to write; empty if nobody knows.
    """
    text = f"module {module!r} has no attribute {name!r}"
    if not instead:
        return AttributeError(text, name=name, obj=sys.modules[module])
    # An import asks whether there is such a name, and hides the error of an attribute.
    here = inspect.currentframe()
    asks = here and here.f_back and here.f_back.f_back
    if asks and asks.f_code.co_name == "_handle_fromlist":
        return ImportError(f"cannot import name {name!r} from {module!r}: use {instead}")
    # Without the name, or Python would guess another one.
    return AttributeError(f"{text}: use {instead}", name="")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question for the one of *known* that is most like *word*, or all of them."""
    choices = sorted(known)
    close = get_close_matches(word, choices, 1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(choices)}"
