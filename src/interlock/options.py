"""What a client may be told, validated once."""

from __future__ import annotations

import dataclasses
import math
import re
from _thread import TIMEOUT_MAX
from collections.abc import Callable, Iterable, Mapping  # noqa: TC003 - read at run time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypedDict, Unpack, cast

from interlock._hints import did_you_mean
from interlock._misuse import LONG, check_long_lease, check_long_timeout
from interlock.credentials import Answer, CredentialProvider
from interlock.errors import ConfigError

Duration: TypeAlias = float | timedelta
"""Seconds, or a `datetime.timedelta`."""

MIN_LEASE = 0.01
"""Seconds. A round trip and the granularity of expiry would leave too little of a shorter lease."""

MIN_RENEWED_LEASE = 0.1
"""Seconds. A shorter lease could not be renewed three times within itself over a real network."""

MAX_LEASE = 10 * 365 * 86400.0
"""Seconds. Ten years: far below where Redis' expiry arithmetic ends."""

FOREVER = math.inf
"""A time to wait that does not end."""

PubSub = Literal["auto", "plain", "sharded", "off"]
_PREFIX = re.compile(r"(?!redisson_|interlock_)[^\s{}*?\[\]\\]+")
"""Text that a pattern of an ACL and of SCAN takes as it is, and that no key of another begins with."""


@dataclass(frozen=True, slots=True)
class ReplicaPolicy:
    """How many replicas must acknowledge a lock before it counts as held.

    Attributes:
        mode: ``"off"`` sends no WAIT at all.
        count: replicas that must acknowledge, or ``"all"`` that are connected to the primary.
            `required` takes ``"all"`` for one at least.
        timeout: seconds (or a timedelta) to wait for them, on top of what the caller waits for the
            lock; at most a third of the lease.
        fsync: whether only replicas count that have it on disk, and the primary must have it there
            too. Then *count* may be 0. It needs WAITAOF: Redis 7.2 or Valkey, with
            ``appendonly yes``. Now and then it takes a second or two.
    """

    mode: Literal["off", "best_effort", "required"] = "off"
    count: int | Literal["all"] = "all"
    timeout: float = 1.0
    fsync: bool = False

    def __post_init__(self) -> None:
        if self.mode not in ("off", "best_effort", "required"):
            raise ConfigError(f"replicas are off, best_effort or required, not {self.mode!r}")
        least = 0 if self.fsync else 1
        if self.count != "all" and (not _is_whole(self.count) or self.count < least):
            raise ConfigError(
                f'replica count must be "all" or a number from {least}, not {self.count!r}'
            )
        object.__setattr__(self, "timeout", seconds(self.timeout))
        if not _is_number(self.timeout) or not 0 < self.timeout < math.inf:
            raise ConfigError(f"replica timeout must be seconds above 0, not {self.timeout!r}")


class OptionChanges(TypedDict, total=False):
    """The fields of `Options` as keyword arguments, for type checkers and editors."""

    lease: Duration
    fair_wait: Duration
    command_timeout: Duration
    outage_timeout: Duration
    pubsub: PubSub
    replicas: ReplicaPolicy | Literal["off"]
    prefix: str | None
    credentials: CredentialProvider | Callable[[], Answer] | None
    slow_acquire: Duration | None
    slow_hold: Duration | None
    card: bool | Literal["names"]


_DURATIONS = ("lease", "fair_wait", "command_timeout", "outage_timeout")

_THRESHOLDS = ("slow_acquire", "slow_hold")


def _check_credentials(given: object) -> None:
    if not (given is None or callable(given) or isinstance(given, CredentialProvider)):
        raise ConfigError(
            "credentials must have get_credentials(), or be a function that returns "
            f"(username, password), not {type(given).__name__}"
        )


def _check_prefix(options: Options) -> None:
    given = options.prefix
    if given is None:
        return
    # Users may not check types.
    if not isinstance(given, str) or not _PREFIX.fullmatch(given):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            "prefix must be text such as 'acme:', without blanks and {}*?[]\\, that does not begin "
            f"like Redisson's keys or ours (redisson_, interlock_), not {given!r}"
        )
    object.__setattr__(options, "prefix", check_text(given, "prefix"))


@dataclass(frozen=True, slots=True)
class Options:
    """How a client behaves; every duration in seconds, or given as a `datetime.timedelta`.

    Attributes:
        lease: how long a lock without a lease of its own lasts after a renewal; it is renewed every
            third of that (Redisson's lockWatchdogTimeout).
        fair_wait: how long a waiter in a fair queue may be silent before it counts as dead.
        command_timeout: the longest wait for one reply. A try for a lock has that long, even with
            ``timeout=0``; so an acquire may end so much later while the server is silent.
        outage_timeout: how long an operation without a timeout of its own sits out an unreachable
            server.
        pubsub: how releases are announced: by ``"plain"`` channels; by ``"sharded"`` ones, in a
            cluster; by what Redisson would choose (``"auto"``); or not at all, so that waiters poll
            (``"off"``).
        replicas: whether replicas must acknowledge; see `off`, `best_effort` and `required`.
        prefix: what all keys of this client begin with, as those of Redisson with a NameMapper:
            with ``"acme:"`` the lock ``x`` is the key ``acme:x``. Keys and channels that are not
            called like their object have ``{acme:`` within. Names are told without it.
        credentials: for credentials that change: an object with ``get_credentials()``, such as a
            `CredentialProvider` of redis-py's, or a function. It returns ``(username, password)``,
            or these two and for how many seconds they work (75 unless told). It is asked before
            the first connection, and again before they end or when a server refuses them; then
            open connections log in anew.
        slow_acquire: a wait that lasts longer is logged, with the holder; None for never. Waits
            and terms of an election are not.
        slow_hold: a hold that lasts longer is logged; None for never.
        card: what operators may read of this client. True for everything, ``"names"`` for its
            host, process and locks without threads and lines, False for nothing but the locks
            themselves.
    """

    lease: float = 30.0
    fair_wait: float = 5.0
    command_timeout: float = 3.0
    outage_timeout: float = 15.0
    pubsub: PubSub = "auto"
    replicas: ReplicaPolicy | Literal["off"] = "off"
    prefix: str | None = None
    credentials: CredentialProvider | Callable[[], Answer] | None = field(default=None, repr=False)
    slow_acquire: float | None = 30.0
    slow_hold: float | None = 600.0
    card: bool | Literal["names"] = True

    if TYPE_CHECKING:
        # A field holds seconds, whatever it was given as.
        def __init__(self, **fields: Unpack[OptionChanges]) -> None: ...

    def __post_init__(self) -> None:
        check_lease(self.lease, MIN_RENEWED_LEASE)
        check_long_lease(self.lease)
        for name in (*_DURATIONS, *_THRESHOLDS):
            value: Any = seconds(getattr(self, name))
            object.__setattr__(self, name, value)
            if name in _THRESHOLDS and value is None:
                continue
            if not _is_number(value) or not 0 < value < math.inf:
                least = "None or seconds" if name in _THRESHOLDS else "seconds"
                raise ConfigError(f"{name} must be {least} above 0, not {value!r}")
        if self.pubsub not in ("auto", "plain", "sharded", "off"):
            raise ConfigError(f"pubsub must be auto, plain, sharded or off, not {self.pubsub!r}")
        if self.replicas != "off" and type(self.replicas) is not ReplicaPolicy:
            raise ConfigError(
                f'replicas must be "off", best_effort(...) or required(...), not {self.replicas!r}'
            )
        if self.card not in (True, False, "names"):
            raise ConfigError(f'card must be True, False or "names", not {self.card!r}')
        _check_prefix(self)
        _check_credentials(self.credentials)

    def replace(self, **changes: Unpack[OptionChanges]) -> Self:
        """Return these options with *changes*.

        Raises:
            ConfigError: for an option that does not exist or a value that cannot work.
        """
        known = {each.name for each in dataclasses.fields(self)}
        if unknown := sorted(set(changes) - known):
            raise ConfigError(f"unknown option {unknown[0]!r}: {_instead(unknown[0], known)}")
        fields: dict[str, Any] = dict(changes)
        if self.lease >= LONG:
            # It was warned of when it was first given.
            fields.setdefault("lease", timedelta(seconds=self.lease))
        return dataclasses.replace(self, **fields) if changes else self


_OF_THE_SERVER = ("host", "port", "db", "username", "password", "ssl", "path", "unix_socket_path")
_OF_REDIS_PY = {
    "decode_responses": "it is not needed",
    "timeout": "client.lock(name, timeout=seconds) limits waits, command_timeout=seconds answers",
    "socket_timeout": "use command_timeout=seconds, or socket_timeout in the URL",
    "socket_connect_timeout": "give it in the URL, as ?socket_connect_timeout=3",
    "retry_on_timeout": "it is not needed: outage_timeout=seconds limits the attempts",
}


def _instead(unknown: str, known: Iterable[str]) -> str:
    """Return what to write in place of an option that does not exist."""
    if unknown in _OF_THE_SERVER:
        return "give it in the URL, as redis://user:password@host:6379/0"
    return _OF_REDIS_PY.get(unknown) or did_you_mean(unknown, known)


def seconds(duration: Duration) -> float:
    """Return *duration* in seconds.

    Anything but a number or a timedelta is returned as it is, for a check that names it.
    """
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def check_lease(lease: Duration, least: float = MIN_LEASE) -> float:
    """Return *lease* in seconds if a hold can live with it.

    Raises:
        ConfigError: unless it is *least* to `MAX_LEASE` seconds.
    """
    if type(lease) is float and least <= lease <= MAX_LEASE:
        return lease  # without a call: the rule
    lease = seconds(lease)
    if not _is_number(lease) or not least <= lease <= MAX_LEASE:
        raise ConfigError(f"lease must be {least} to {MAX_LEASE:.0f} seconds, not {lease!r}")
    return float(lease)


def lease_of(lease: Duration | None, scope: object) -> float | None:
    """Return a user's *lease* in seconds.

    Warn once for each *scope* of a lease that is probably meant in milliseconds.

    Raises:
        ConfigError: as `check_lease`.
    """
    if lease is None:
        return None
    checked = check_lease(lease)
    check_long_lease(lease, scope)
    return checked


def check_holds(min_hold: Duration, max_hold: Duration | None = None) -> tuple[float, float | None]:
    """Return for how many seconds a lock is to be kept at least and at most.

    Raises:
        ConfigError: unless they are 0 to `MAX_LEASE` seconds, the second at least as long as the
            first.
    """
    least = seconds(min_hold)
    if not _is_number(least) or not 0 <= least <= MAX_LEASE:
        raise ConfigError(f"min_hold must be 0 to {MAX_LEASE:.0f} seconds, not {min_hold!r}")
    if max_hold is None:
        return float(least), None
    most, bound = seconds(max_hold), max(float(least), MIN_LEASE)
    if not _is_number(most) or not bound <= most <= MAX_LEASE:
        raise ConfigError(
            f"max_hold must be {bound:g} to {MAX_LEASE:.0f} seconds, not {max_hold!r}"
        )
    return float(least), float(most)


def check_interval(duration: Duration, what: str) -> float:
    """Return the seconds from one look to the next, or of another span, the argument *what*.

    Raises:
        ConfigError: unless it is `MIN_LEASE` to `MAX_LEASE` seconds.
    """
    span = seconds(duration)
    if not _is_number(span) or not MIN_LEASE <= span <= MAX_LEASE:
        raise ConfigError(
            f"{what} must be {MIN_LEASE} to {MAX_LEASE:.0f} seconds, not {duration!r}"
        )
    return float(span)


def lease_within(
    max_hold: float | None, lease: Duration | None, options: Options
) -> Duration | None:
    """Return the lease of a hold that lasts *max_hold* seconds at most; None if it is renewed."""
    if max_hold is None:
        return lease
    if lease is None:
        return max_hold if max_hold <= options.lease else None
    return min(check_lease(lease), max_hold)


def check_flag(value: object, what: str) -> bool:
    """Return *value* if it is a bool; ``"no"`` would count as true.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, not {value!r}")
    return value


def check_number(number: object, of: str, least: int, most: int) -> int:
    """Return *number* if it is a number of *of*, what is counted.

    Raises:
        TypeError: unless it is an int.
        ConfigError: unless it is *least* to *most*.
    """
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"a number of {of} must be an int, not {type(number).__name__}")
    number = int.__int__(number)  # a member of an enum has another `str`
    if not least <= number <= most:
        raise ConfigError(f"a number of {of} must be {least} to {most}, not {number}")
    return number


def options_of(options: object, changes: Mapping[str, Any]) -> Options:
    """Return *options* with *changes*; None stands for the defaults.

    Raises:
        TypeError: *options* is something else.
        ConfigError: an option that cannot work.
    """
    given = Options() if options is None else options
    if not isinstance(given, Options):
        raise TypeError(
            f"options must be interlock.Options, not {type(options).__name__}: "
            "give single ones as keywords, as in connect(url, lease=10)"
        )
    return given.replace(**changes)


def check_name(name: object, what: str = "a name") -> str:
    """Return *name* as an exact `str` if an object can be called that; see `check_text`.

    Raises:
        TypeError: unless it is a string.
        ConfigError: if it is empty or cannot be written as UTF-8.
    """
    text = check_text(name, what)
    if not text:
        raise ConfigError(f"{what} must not be empty")
    return text


def check_text(text: object, what: str) -> str:
    """Return the characters of *text* as an exact `str` if they can be sent.

    A subclass may have another `str`, `format`, hash and equality than its characters. A member of
    ``class Job(str, Enum)`` would be one lock for one command, and another for the next.

    Raises:
        TypeError: unless it is a string.
        ConfigError: if it cannot be written as UTF-8.
    """
    # Not `isinstance`, which believes what an object says of its class.
    if not issubclass(type(text), str):
        raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    text = str.__str__(cast("str", text))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{what} must be valid Unicode, not {text!r}") from error
    return text


LONGEST_REASON = 2000
"""Bytes of what a holder is told whose lock is released by force."""


def check_reason(reason: object) -> str:
    """Return *reason* if a holder can be told that.

    Raises:
        TypeError: unless it is a string.
        ConfigError: it cannot be written as UTF-8, or is too long.
    """
    text = check_text(reason, "a reason")
    if (size := len(text.encode())) > LONGEST_REASON:
        raise ConfigError(f"a reason may have {LONGEST_REASON} bytes, and this one has {size}")
    return text


def check_values(values: Iterable[str]) -> tuple[str, ...]:
    """Return *values* each once and in order, if a group lock can hold them.

    Raises:
        TypeError: for one that is not a string, or a string in place of several.
        ConfigError: if there is none, or one cannot be written as UTF-8.
    """
    if isinstance(values, str):
        raise TypeError(f"values must be several str, not one: [{values!r}] holds just that")
    found = tuple(sorted({check_text(value, "a value") for value in values}))
    if not found:
        raise ConfigError("a group lock needs at least one value")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def best_effort(
    count: int | Literal["all"] = "all", timeout: Duration | None = None, *, fsync: bool = False
) -> ReplicaPolicy:
    """Wait up to *timeout* seconds for *count* replicas, and go on in any case.

    The *timeout* is 1, or 3 with *fsync*, unless given. ``hold.replicas`` tells how many
    acknowledged.
    """
    return ReplicaPolicy("best_effort", count, _patience(timeout, fsync), fsync)


def required(
    count: int | Literal["all"] = "all", timeout: Duration | None = None, *, fsync: bool = False
) -> ReplicaPolicy:
    """Raise ReplicationError unless *count* replicas acknowledge within *timeout* seconds.

    The lock is given back then. The *timeout* is 1, or 3 with *fsync*, unless given.
    """
    return ReplicaPolicy("required", count, _patience(timeout, fsync), fsync)


def _patience(timeout: Duration | None, fsync: bool) -> float:
    # A replica that has just missed to tell what is on its disk tells it a second later.
    return (3.0 if fsync else 1.0) if timeout is None else seconds(timeout)


def check_timeout(blocking: bool, timeout: Duration | None) -> float:
    """Return how long an acquire may wait: 0 for one try, infinity for ever.

    Follows `threading.RLock.acquire`: None and -1 wait for ever.

    Raises:
        ConfigError: unless *blocking* is a bool and *timeout* a number that can be; and for a
            timeout with ``blocking=False``.
        OverflowError: above `threading.TIMEOUT_MAX`.
    """
    if blocking not in (True, False):
        raise ConfigError(f"blocking must be a bool, not {blocking!r}: use timeout=seconds to wait")
    if timeout is None or timeout == -1:
        return math.inf if blocking else 0.0
    given, timeout = timeout, seconds(timeout)
    if not _is_number(timeout):
        raise ConfigError(f"timeout must be a number of seconds, not {type(timeout).__name__}")
    if not blocking:
        raise ConfigError("a timeout makes no sense with blocking=False")
    if math.isnan(timeout) or timeout < 0:
        raise ConfigError(f"timeout must be None, -1 (for ever) or seconds from 0, not {timeout!r}")
    if timeout > TIMEOUT_MAX:
        raise OverflowError(
            f"timeout must be at most {TIMEOUT_MAX:.0f} seconds, not {timeout!r}; "
            "None waits for ever"
        )
    if timeout >= LONG:
        check_long_timeout(given)
    return float(timeout)
