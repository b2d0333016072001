"""Hints for users who know another library: what they call a thing, and what it is here.

`hints` answers for names, `told` and `unexpected` for keywords. Nothing of them is in `dir` of an
object, in a signature or in `help`.
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
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")

_DATA = "a client of redis-py's for data: this one makes locks"
_KEY = "a client of redis-py's: that is of the key, not of the lock"
_RATE = (
    "limited(name, n), which limits how many run at once; for n in each second, permits "
    "that end by themselves: leased_semaphore(name, permits=n).acquire(lease=1)"
)
_LOCK = {
    "acquire()": "lock lock_interruptibly",
    "acquire(timeout=seconds), or trying(timeout=seconds) in a with statement": (
        "try_lock try_acquire"
    ),
    "acquire() and hold.token": "lock_and_get_token",
    "acquire(timeout=seconds) and hold.token": "try_lock_and_get_token",
    "release()": "unlock do_release",
    "force_release()": "force_unlock reset delete unlink",
    "locked()": "is_locked is_exists is_lock_held",
    "owned()": "is_held_by_current_thread is_held_by_thread is_owned",
    "hold_count()": "get_hold_count lock_counter",
    "remaining()": "remain_time_to_live ttl",
    "name": "get_name key",
    "hold.token": "get_token token",
    "hold.holder": "id get_owner_id",
    "hold, which has the holder": "local",
    "read": "read_lock",
    "write": "write_lock",
    "extend(lease)": "reacquire",
    "extend(lease); a lock without a lease is renewed by itself": "renew refresh",
    "extend(lease) of the lock": "expire",
    "hold.on_lost(callback), or client.observe(observer)": "add_listener",
    "client.condition(lock)": "new_condition",
    _KEY: "rename",
}
_HOLD = {
    "set_lease(seconds), or extend(lease) of the lock": "extend",
    "acquire() of the lock; a hold is what that gives, and falsy if it was not acquired": "acquire",
    "valid, or locked() of the lock": "locked is_locked",
    "valid": "owned is_valid",
    "depth": "hold_count",
    "remaining": "remain_time_to_live ttl expires_at",
    "token": "fencing_token",
    "set_lease(seconds); a hold without a lease is renewed by itself": "renew refresh",
}
_SEMAPHORE = {
    "acquire()": "lock",
    "acquire(n, timeout=seconds)": "try_acquire try_lock",
    "release()": "unlock",
    "release(permit)": "try_release",
    "add_permits(-n)": "reduce_permits",
    "permits()": "get_permits",
    "available_permits()": "get_available_permits locked is_exists value bounded",
    "acquired_permits()": "get_acquired_permits",
    "update_lease(permit, lease)": "update_lease_time",
    "name": "get_name",
    _KEY: "expire rename",
}
_READ_WRITE = {
    **{f"read or write, which have {ours}": theirs for ours, theirs in _LOCK.items()},
    **{
        f"read.{name} or write.{name}": name
        for name in [
            "acquire",
            "release",
            "locked",
            "owned",
            "hold_count",
            "remaining",
            "extend",
            "hold",
            "force_release",
        ]
    },
    "read or write, which have acquire(timeout=seconds)": "try_lock try_acquire",
    "read": "read_lock",
    "write": "write_lock",
    "name": "get_name",
}
NAMES: Mapping[str, Mapping[str, str]] = {
    "Client": {
        "lock(name)": "get_lock mutex",
        "lock(name, reentrant=False)": "get_non_reentrant_lock",
        "fair_lock(name)": "get_fair_lock",
        "fair_lock(name, reentrant=False)": "get_non_reentrant_fair_lock",
        "read_write_lock(name)": "get_read_write_lock rw_lock",
        "fenced_lock(name)": "get_fenced_lock",
        "spin_lock(name)": "get_spin_lock",
        "multi_lock(*locks) or group_lock(group, values)": "get_multi_lock",
        "red_lock(*locks)": "get_red_lock",
        "semaphore(name)": "get_semaphore",
        "leased_semaphore(name)": "get_permit_expirable_semaphore",
        "count_down_latch(name)": "get_count_down_latch latch",
        "lock(name).acquire()": "acquire",
        "lock(name).release()": "release",
        "force_release(name, holder=...), for what `interlock list` shows": "reset_all",
        "client_id": "get_id",
        "check()": "ping",
        "interlock.connect(url)": "create",
        "close()": "shutdown is_shutdown is_shutting_down aclose disconnect",
        _RATE: "get_rate_limiter rate_limiter rate_limit",
        _DATA: (
            "get set get_bucket get_map get_set get_list get_queue get_deque get_atomic_long "
            "get_topic get_keys"
        ),
    },
    "Lock": _LOCK,
    "Election": _LOCK,
    "Condition": _LOCK,
    "Hold": {**_LOCK, **_HOLD},
    "Permit": {**_LOCK, **_HOLD},
    "ReadWriteLock": _READ_WRITE,
    "Semaphore": _SEMAPHORE,
    "LeasedSemaphore": _SEMAPHORE,
    "CountDownLatch": {
        "wait()": "await await_ acquire",
        "count_down()": "release",
        "count()": "get_count is_exists",
        "try_set_count(count)": "set_count",
        "name": "get_name",
    },
    "Event": {"set()": "trigger", "clear()": "reset", "name": "get_name"},
}
"""What to use on our classes, for the names that other libraries have there, in snake case."""

_TIMEOUT = "timeout", "timeout=seconds"
_LEASE = "lease", "lease=seconds (a lock without it is renewed until it is released)"
_TRY = "reentrant", "client.try_lock(name) for one try"
KEYWORDS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("blocking_timeout", "wait_time", "acquire_timeout"), _TIMEOUT),
    **dict.fromkeys(("ttl", "ex", "px", "expire", "lease_time", "auto_release_time"), _LEASE),
    **dict.fromkeys(("auto_renewal", "auto_renew"), _LEASE),
    "blocking": _TRY,
    "force": ("", "force_release()"),
}
"""Keywords of other libraries; for each, what a call must have to be told, and what to write."""


def hints(made_by: str) -> Callable[[type[T]], type[T]]:
    """Make a class name our word for a name of `NAMES` that it lacks.

    A user may also write a name in camel case, and may add ``_async`` or ``Async``.

    Args:
        made_by: what makes its objects; users do not call the class.
    """

    def decorate(cls: type[T]) -> type[T]:
        # Type checkers shall not know of it.
        setattr(cls, "__getattr__", _answer(NAMES.get(cls.__name__, {})))  # noqa: B010
        setattr(cls, "__init__", _made_by(cls, made_by))  # noqa: B010
        return cls

    return decorate


def _answer(table: Mapping[str, str]) -> Callable[[object, str], NoReturn]:
    names = {theirs: ours for ours, words in table.items() for theirs in words.split()}

    def __getattr__(self: object, name: str) -> NoReturn:  # noqa: N807 - it becomes that
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        word = snake.removesuffix("_async")
        ours = word != name and not word.startswith("_") and hasattr(type(self), word)
        instead = word if ours else names.get(word)
        if not instead:
            raise AttributeError(text, name=name, obj=self)
        if word != snake:
            instead += ", which interlock.asyncio's clients await"
        # Without the name, or Python would guess another one.
        raise AttributeError(f"{text}: use {instead}", name="", obj=self)

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


def told(function: F) -> F:
    """Return *function*, which answers for keywords of other libraries.

    An error about an argument loses the frames of this package.

    A wrapper costs each call a tenth of an acquire. A method on the hot path takes such keywords
    itself, as ``**_foreign``, and raises `unexpected`. Then only its signature is made right.
    """
    if "_foreign" in function.__annotations__:
        whole = inspect.signature(function)
        shown = [each for each in whole.parameters.values() if each.name != "_foreign"]
        function.__signature__ = whole.replace(parameters=shown)  # type: ignore[attr-defined]
        return function

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, OverflowError) as error:
            mistaken = f"{function.__qualname__}() got an unexpected keyword argument "
            # Only the call itself says so of its function.
            if isinstance(error, TypeError) and str(error).startswith(mistaken):
                raise unexpected(function, kwargs) from None
            if not DEBUG:
                error.__traceback__ = None
            raise

    return cast("F", called)


def unexpected(function: Callable[..., Any], given: Iterable[str]) -> TypeError:
    """Return Python's error for the first keyword *given* that *function* lacks, with ours."""
    parameters = inspect.signature(function).parameters
    keyword = next(each for each in given if each not in parameters)
    error = f"{function.__qualname__}() got an unexpected keyword argument {keyword!r}"
    needs, instead = KEYWORDS.get(keyword, ("nothing", ""))
    return TypeError(f"{error}: use {instead}" if needs in ("", *parameters) else error)


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
