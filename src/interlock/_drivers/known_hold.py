"""What a hold of either face tells without asking the server."""

# Functions beside a class share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from interlock._core.insight.events import tell_loss
from interlock._core.model.hold import HELD
from interlock._core.model.no_hold import NoHold
from interlock._misuse import publish
from interlock.errors import HoldLostError, NotHeldError

if TYPE_CHECKING:
    from interlock._core.locks.release import Release
    from interlock._core.model.hold import Claim, Hold
    from interlock.errors import LossReason


class KnownHold:
    """A hold, and the questions that a client answers from what it knows.

    Attributes:
        name: what is held.
    """

    __slots__ = (
        "__weakref__", "_claim", "_driver", "_hold", "_lock", "_lost", "_released", "name",
    )  # fmt: skip

    if TYPE_CHECKING:  # help() would show them
        _driver: Any
        _hold: Hold
        _claim: Any
        _lock: object  # see `Job`

        @property
        def lost(self) -> Any: ...

    def __init__(self, driver: Any, hold: Any, claim: Any = None) -> None:
        self._driver = driver
        self._hold = hold
        self._claim = claim
        self._released = False
        self._lost: Any = None
        self.name: str = hold.name

    def __repr__(self) -> str:
        if isinstance(self._hold, NoHold):
            return f"<Hold {self.name!r} not acquired, held by {self.holder or 'another owner'}>"
        state = "valid" if self.valid else "lost" if self.lost.is_set() else "over"
        if self._driver.session.is_parents(self.holder):
            state = "of the parent process"
        return f"<Hold {self.name!r} {state} holder={self.holder}>"

    def __bool__(self) -> bool:
        return self.valid

    @property
    def holder(self) -> str | None:
        """Return ``"<client id>:<number>"``, as the server knows the holder.

        For an empty hold it is the holder at the time of the failed acquire, or None if that is not
        known.
        """
        return self._hold.holder

    @property
    def token(self) -> int | None:
        """Return the fencing token, or None for a lock without one."""
        return self._hold.token

    @property
    def token_source(self) -> str | None:
        """Return what keeps the token above all earlier ones, also after a failover.

        ``"epoch"``: a count of failovers. ``"clock"``: the server's, in a cluster. ``"counter"``:
        nothing else, and a failover may set that back. None: no token, or the hold was adopted.
        """
        return self._hold.token_source

    @property
    def replicas(self) -> int | None:
        """Return how many replicas had it when it was acquired, as `Options.replicas` asks; or None."""
        return self._hold.replicas

    @property
    def depth(self) -> int:
        """Return how often the lock was entered; 0 when the hold is over."""
        return self._hold.depth if self._hold.state is HELD else 0

    @property
    def valid(self) -> bool:
        """Return whether nobody else can hold the lock now."""
        return self._hold.valid(self._driver.session.clock())

    @property
    def remaining(self) -> float:
        """Return how many seconds the hold is valid without another renewal; 0 when it is over."""
        if not self.valid:
            return 0.0
        now: float = self._driver.session.clock()
        return max(0.0, self._hold.valid_until - now)

    def ensure(self) -> None:
        """Raise unless the hold is valid.

        Raises:
            HoldLostError: it was lost. Or the process stood still after a release of another
                client had given it the lock, and has not asked yet whether it was kept.
            NotHeldError: it was released, or not acquired.
        """
        if self.valid:
            return
        if isinstance(self._hold, NoHold):
            raise self._hold.not_held()
        if self.lost.is_set():
            reason = self._hold.reason or self._hold.expiry_reason()
            detail = self._hold.detail
            why = tell_loss(reason, detail)
            raise HoldLostError(
                f"{self.name!r} was lost ({why})", name=self.name, reason=reason, detail=detail
            )
        if self._hold.state is HELD:
            raise HoldLostError(
                f"{self.name!r} may be lost: the process stood still before the server could "
                "confirm that it keeps it",
                name=self.name,
                reason=self._hold.expiry_reason(),
            )
        is_parents = self._driver.session.is_parents(self.holder)
        told = "belongs to the process that forked this one" if is_parents else "was released"
        raise NotHeldError(f"{self.name!r} {told}", name=self.name, owner=self._hold.label)

    def _releasing(self) -> Release:
        """Return the step that releases it."""
        hold, claim = self._hold, self._claim
        if isinstance(hold, NoHold):
            raise hold.not_held()
        step: Release = hold.release(claim if claim in hold.entries else None)
        return step

    def _end_within(self, seconds: float) -> None:
        session = self._driver.session
        self._hold.end_by(session.clock() + seconds)
        session.wake(None)  # to tell that


F = TypeVar("F", bound=KnownHold)
_new = KnownHold.__new__


def of_block(
    kind: type[F], driver: Any, hold: Hold, keeper: object, claim: Claim | None = None
) -> F:
    """Return the face of *hold*, which keeps *keeper* alive; for the block of *claim* if there is one.

    The class is not called, since that costs much more (`hints`).
    """
    made = _new(kind)
    made._driver, made._hold, made._claim, made.name = driver, hold, claim, hold.name
    made._released, made._lost, made._lock = False, None, keeper
    return made


class LostState:
    """Whether *hold*, of the client of *driver*, has ended without being released."""

    def __init__(self, driver: Any, hold: Hold) -> None:
        self._driver = driver
        self._hold = hold

    def is_set(self) -> bool:
        """Return whether the hold is lost, as far as is known here; no round trip."""
        return self._hold.lost(self._driver.session.clock())

    @property
    def reason(self) -> LossReason | None:
        """Return why the hold is lost, as `HoldLostError` tells it; None if it is not lost."""
        return (self._hold.reason or self._hold.expiry_reason()) if self.is_set() else None

    @property
    def detail(self) -> str:
        """Return what more is known of the loss, as `HoldLostError` tells it; may be empty."""
        return self._hold.detail if self.is_set() else ""

    def __bool__(self) -> NoReturn:
        raise TypeError("hold.lost is an event: use hold.lost.is_set(), or hold.valid")


publish("interlock", KnownHold)  # help() shows no name of what is inside
