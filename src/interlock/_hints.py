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
    from collections.abc import Callable, Iterable

T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")

_TABLE = """
acquire(): lock lock_interruptibly lock_and_get_token
trying(timeout=seconds) in a with statement, or acquire(timeout=seconds): try_lock try_acquire
wait(): await await_ acquire
release(): unlock do_release
force_release(): force_unlock reset delete unlink
locked(): is_exists is_lock_held
owned(): is_held_by_current_thread
hold_count(): lock_counter
remaining, the seconds that are left: remain_time_to_live ttl expires_at
valid, or locked() of the lock: locked is_locked owned
depth: hold_count
token: fencing_token
hold.token: get_token token
hold.holder: id get_owner_id local
hold.on_lost(callback), or client.observe(observer): add_listener
extend(lease); a lock without a lease is renewed by itself: reacquire renew refresh expire
extend(permit, lease): update_lease_time
release() of this hold, or acquire() of the lock: acquire
name: key
name is a key; a client of redis-py's does that: rename expire
read: read_lock
write: write_lock
read or write, which are locks: acquire release locked owned extend hold lock unlock try_lock
add_permits(-n): reduce_permits
available_permits(): locked is_exists value bounded
count_down(): release
try_set_count(count): set_count
lock(name): mutex
lock(name).acquire(): acquire
lock(name).release(): release
leased_semaphore(name): get_permit_expirable_semaphore
count_down_latch(name): latch
limited(name, n), or leased_semaphore(name, permits=n).acquire(lease=1): get_rate_limiter rate_limit
client.condition(lock): new_condition
force_release(name, holder=...), for what `interlock list` shows: reset_all
close(): shutdown aclose disconnect
observe(observer), or redis-py for data; this client makes locks: get set get_bucket get_map get_set
"""
NAMES: dict[str, str] = {
    ours: theirs
    for ours, _, theirs in (line.rpartition(": ") for line in _TABLE.split("\n") if line)
}
"""What to use, for the names of other libraries in snake case: the first that an object has.

``get_`` and ``is_`` may stand before each of our own names.
"""

_LEASE = "lease=seconds (a lock without it is renewed until it is released)"
KEYWORDS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("blocking_timeout", "wait_time", "acquire_timeout"), ("timeout", "timeout=seconds")
    ),
    **dict.fromkeys(("ttl", "ex", "px", "expire", "lease_time"), ("lease", _LEASE)),
    **dict.fromkeys(("auto_release_time", "auto_renewal", "auto_renew"), ("lease", _LEASE)),
    "blocking": ("reentrant", "client.try_lock(name) for one try"),
    "thread_local": ("", "nothing: a hold belongs to the thread or task that acquired it"),
    "force": ("", "force_release()"),
}
"""Keywords of other libraries; for each, what a call must have to be told, and what to write."""


def hints(made_by: str) -> Callable[[type[T]], type[T]]:
    """Make a class name our word for a name of `NAMES` that it lacks, and show no constructor.

    A user may also write a name in camel case, and may add ``_async`` or ``Async``.

    Args:
        made_by: what makes its objects; users do not call the class.
    """

    def decorate(cls: type[T]) -> type[T]:
        # Type checkers shall not know of it.
        setattr(cls, "__getattr__", _answer)  # noqa: B010
        setattr(cls, "__init__", _made_by(cls, made_by))  # noqa: B010
        return cls

    return decorate


def _answer(self: object, name: str) -> NoReturn:
    kind = type(self)
    text = f"{kind.__name__!r} object has no attribute {name!r}"
    word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().removesuffix("_async")
    known = [ours for ours, theirs in NAMES.items() if word in theirs.split()]
    for instead in (word, *known, re.sub("^(get|is)_", "", word)):
        begin = re.split(r"\W", instead)[0]
        if instead != name and begin[:1] != "_" and (begin == "client" or hasattr(kind, begin)):
            # Without the name, or Python would guess another one.
            raise AttributeError(f"{text}: use {instead}", name="", obj=self)
    raise AttributeError(text, name=name, obj=self)


def _made_by(cls: type, maker: str) -> Callable[..., None]:
    init: Callable[..., None] = getattr(cls, "__init__")  # noqa: B009 - unsound for mypy

    @wraps(init)
    def __init__(self: object, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it becomes that
        try:
            init(self, *args, **kwargs)
        except (AttributeError, TypeError):
            if args and type(args[0]).__module__.startswith("interlock._"):
                raise
            raise TypeError(f"{cls.__name__} is not made by its class: use {maker}") from None

    signature = inspect.Signature(list(inspect.signature(init).parameters.values())[:1])
    setattr(__init__, "__signature__", signature)  # noqa: B010 - no such attribute for mypy
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
    foreign = KEYWORDS.keys() - function.__annotations__.keys()

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            if not foreign.isdisjoint(kwargs):
                raise unexpected(function, [each for each in kwargs if each in foreign])
            return function(*args, **kwargs)
        except (TypeError, ValueError, OverflowError) as error:
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
    known = {"", "lease", *parameters} if "changes" in parameters else {"", *parameters}
    return TypeError(f"{error}: use {instead}" if needs in known else error)


def missing(module: str, name: str, instead: str) -> AttributeError:
    """Return the error for *name*, which *module* lacks; *instead* is what to write, if known."""
    text = f"module {module!r} has no attribute {name!r}"
    if not instead:
        return AttributeError(text, name=name, obj=sys.modules[module])
    # Without the name, or Python would guess another one.
    return AttributeError(f"{text}: use {instead}", name="")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question for the one of *known* that is most like *word*, or all of them."""
    choices = sorted(known)
    close = get_close_matches(word, choices, 1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(choices)}"
