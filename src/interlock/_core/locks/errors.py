"""The errors about holds."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from interlock._core.insight.events import tell_loss
from interlock._core.insight.holder import known_holder
from interlock.errors import AcquireTimeoutError, HoldLostError, NotHeldError

if TYPE_CHECKING:
    from interlock._core.model.hold import Hold
    from interlock._core.upkeep.session import Session
    from interlock.errors import ServerUnavailableError


def lost_error(hold: Hold) -> HoldLostError:
    """Return the error for a *hold* that is lost."""
    reason = hold.reason or hold.expiry_reason()
    return HoldLostError(
        f"{hold.lock!r} was lost ({tell_loss(reason, hold.detail)})",
        name=hold.name,
        reason=reason,
        detail=hold.detail,
    )


def unreleased(hold: Hold, error: ServerUnavailableError) -> ServerUnavailableError:
    """Return a copy of *error*, which ended a release, that says what becomes of *hold*."""
    told = copy(error)  # other callers may have got the same object
    what = f"{hold.lock!r} is not renewed any more and ends with its lease"
    told.args = (f"{error}; {what}, unless this client reaches the server before",)
    return told


def not_held(kind: str, name: str, who: str) -> NotHeldError:
    """Return the error for an operation on a hold that *who* does not have."""
    return NotHeldError(
        f"{kind} {name!r} is not held by {who}; nothing was changed", name=name, owner=who
    )


def ended_error(hold: Hold) -> NotHeldError:
    """Return the error for an operation on a *hold* that has ended here."""
    error = not_held(hold.lock.kind, hold.name, hold.label)
    if hold.lock.session.is_parents(hold.holder):
        tell_of_fork(error, hold.lock.session)
    return error


def out_of_time(kind: str, name: str, permits: int, timeout: float) -> AcquireTimeoutError:
    """Return the error for permits that did not become free in time."""
    what = "a permit" if permits == 1 else f"{permits} permits together"
    return AcquireTimeoutError(
        f"{kind} {name!r} did not have {what} to give in {timeout:g} s", name=name, timeout=timeout
    )


def name_holder(error: NotHeldError, holder: str | None, session: Session) -> None:
    """Name the present *holder* in *error*, for a user of the client of *session*."""
    error.holder = holder
    by = "" if holder is None else f"; held by {known_holder(session, holder, error.name)}"
    error.args = (f"{error.args[0]}{by}",)
    if not session.is_parents(holder):
        tell_of_fork(error, session)


def tell_of_fork(error: NotHeldError, session: Session) -> None:
    """Say in *error* that a forked process holds nothing of its parent's, if this one is forked."""
    if session.parents:
        text = "this process was forked, and holds none of its parent's locks"
        error.args = (f"{error.args[0]}; {text}",)
