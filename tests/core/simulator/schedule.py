"""Which fault happens where in a simulation: planned ones by their place, others by a rate.

A place is an *effect*: the third thing that process ``"a.1"`` asks of the world is ``("a.1", 2)``.
A run records how many effects each process had, so that a test can visit them all. Other faults
come at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

When: TypeAlias = Literal["before", "after", "late"]
"""Before the server acts, after it acted, or so early that it acts after the operation's end."""

EffectKind: TypeAlias = Literal[
    "drop request",
    "drop reply",
    "duplicate",
    "delay request",
    "delay reply",
    "raise",
    "abandon",
]
Kind: TypeAlias = (
    EffectKind
    | Literal[
        "crash",
        "pause",
        "outage",
        "restart",
        "force release",
        "deafen",
        "lose messages",
        "delay messages",
        "failover",
    ]
)

EFFECT_KINDS: tuple[EffectKind, ...] = get_args(EffectKind)
"""What happens to one effect; the others happen at a time."""

_WHENS: tuple[When, ...] = ("before", "after", "late")
_REFUSED = 0.2
"""How often an operation that is drawn to fail is refused by the server, and not interrupted."""


class Interrupted(BaseException):
    """Stands for a Ctrl-C or a cancellation."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; the functions below make them.

    Attributes:
        kind: what happens.
        when: relative to the server's acting, for what befalls an operation.
        seconds: how long a delay, a pause or an outage takes.
        error: makes what is raised in the operation.
    """

    kind: Kind
    when: When = "before"
    seconds: float = 0.0
    error: Callable[[], BaseException] = Interrupted


def interrupt(when: When = "before", *, seconds: float = 0.0) -> Fault:
    """Raise `Interrupted` in the operation.

    Args:
        when: what became of the effect that it was waiting for.
        seconds: how long after the interruption a ``"late"`` request still arrives.
    """
    return Fault("raise", when, seconds)


def fail(*, sent: bool, transient: bool = False) -> Fault:
    """Raise ServerUnavailableError in the operation; the script has run if *sent*."""

    def error() -> BaseException:
        return ServerUnavailableError("a simulated fault", sent=sent, transient=transient)

    return Fault("raise", "after" if sent else "before", error=error)


def drop_request(seconds: float = 0.0) -> Fault:
    """Lose the request; the client notices after *seconds*, or earlier, when its patience ends."""
    return Fault("drop request", seconds=seconds)


def drop_reply(seconds: float = 0.0) -> Fault:
    """Run the script and lose the reply; the client notices after *seconds*."""
    return Fault("drop reply", seconds=seconds)


def duplicate() -> Fault:
    """Run the script and break the connection: its sender sends it again, so it runs twice."""
    return Fault("duplicate")


def delay_request(seconds: float) -> Fault:
    return Fault("delay request", seconds=seconds)


def delay_reply(seconds: float) -> Fault:
    return Fault("delay reply", seconds=seconds)


@dataclass(frozen=True, slots=True)
class Schedule:
    """All faults of a run.

    Attributes:
        effects: what happens at the n-th effect (from 0) of a process, by ``(process name, n)``.
        rates: chance per effect, or per second for what comes at a time, of kinds of faults.
        longest: seconds; what is drawn at random takes at most that long.
    """

    effects: Mapping[tuple[str, int], Fault] = field(default_factory=dict[tuple[str, int], Fault])
    rates: Mapping[Kind, float] = field(default_factory=dict[Kind, float])
    longest: float = 3.0
    _effect_rates: Sequence[tuple[Kind, float]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rates = tuple((kind, self.rates[kind]) for kind in EFFECT_KINDS if kind in self.rates)
        object.__setattr__(self, "_effect_rates", rates)

    @property
    def benign(self) -> bool:
        return not (self.effects or self.rates)

    def at_effect(self, process: str, number: int, random: Random) -> Fault | None:
        planned = self.effects.get((process, number)) if self.effects else None
        if planned is not None or not self.rates:
            return planned
        drawn = random.random()
        for kind, rate in self._effect_rates:
            drawn -= rate
            if drawn < 0:
                return self._draw(kind, random)
        return None

    def next_timed(self, random: Random) -> tuple[float, Fault] | None:
        """Return in how many seconds which drawn fault comes, None when none ever does."""
        rates: dict[Kind, float] = {
            kind: rate for kind, rate in self.rates.items() if kind not in EFFECT_KINDS and rate
        }
        if not rates:
            return None
        [kind] = random.choices(list(rates), list(rates.values()))
        return random.expovariate(sum(rates.values())), self._draw(kind, random)

    def _draw(self, kind: Kind, random: Random) -> Fault:
        when = random.choice(_WHENS)
        # Mostly short: a fault about as long as the round trips and pauses finds more than one that
        # outlasts everything.
        seconds = self.longest * random.random() ** 4
        if kind == "raise" and random.random() < _REFUSED:
            return fail(sent=when != "before")
        return Fault(kind, when, seconds)
