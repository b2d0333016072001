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
KEYWORDS: Mapping[str, tuple[str, str]] = {
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
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    word = snake.removesuffix("_async")
    known = [word, *(ours for ours, theirs in NAMES.items() if word in theirs.split())]
    fits = [each for each in (*known, re.sub("^(get|is)_", "", word)) if each != name]
    begins = [re.split(r"\W", each)[0] for each in fits]
    instead = next(
        (x for x, at in zip(fits, begins, strict=True) if at == "client" or hasattr(kind, at)), ""
    )
    if not instead or name.startswith("_"):
        raise AttributeError(text, name=name, obj=self)
    if word != snake:
        instead += ", which interlock.asyncio's clients await"
    # Without the name, or Python would guess another one.
    raise AttributeError(f"{text}: use {instead}", name="", obj=self)


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

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, OverflowError) as error:
            text, foreign = str(error), [each for each in kwargs if each in KEYWORDS]
            # Only the call itself says so of its function.
            if f"{function.__qualname__}() got an unexpected keyword argument " in text:
                raise unexpected(function, kwargs) from None
            if foreign and text.startswith("unknown option "):  # of a client
                raise unexpected(function, foreign) from None
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


def missing(module: str, name: str, instead: str) -> AttributeError | ImportError:
    """Return the error for *name*, which *module* lacks; *instead* is what to write, if known."""
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
