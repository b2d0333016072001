"""The scripts of the plain, the fenced and the multi lock, and of who releases a hold by force."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from interlock._core.model.effects import Eval, Script
from interlock._core.scripts.loader import Variants, load
from interlock._core.scripts.replies import freed, held_or_left, held_or_refused
from interlock._core.scripts.script import (
    Grant,
    ReplyShapeError,
    done,
    grant_or_left,
    kept,
    many,
    milliseconds,
    numbers,
    seconds,
    text,
)
from interlock._core.scripts.source import bare
from interlock.errors import WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ACQUIRE", "ASK", "FENCED_ACQUIRE", "FENCED_ASK", "FENCED_RELEASE", "FREED", "GIVE", "LEAVE_ALL", "LEFT_ALONE",
    "RELEASE", "RENEW", "TAKE_ALL", "Grant", "LockStatus", "forced_note_read", "forced_note_write",
    "lock_query", "lock_renew", "milliseconds", "remember", "status",
]  # fmt: skip


class LockStatus(NamedTuple):
    """What the server knows of a lock.

    Attributes:
        remaining: seconds that are left of the lease, infinite if it never ends; None if nobody
            holds the lock.
        holders: the depth of each holder, by its holder id.
    """

    remaining: float | None
    holders: dict[str, int]


def status(reply: object) -> LockStatus:
    """Read a PTTL and the holders with their depths."""
    match many(reply):
        case [pttl, *fields] if len(fields) % 2 == 0:
            remaining = seconds(pttl)
        case _:
            raise ReplyShapeError(f"expected a PTTL and pairs, got {reply!r}")
    pairs = zip(fields[::2], fields[1::2], strict=True)
    holders = {text(holder): _depth(depth) for holder, depth in pairs}
    return LockStatus(remaining if holders else None, holders)


def _depth(reply: object) -> int:
    """Read the depth of a holder.

    Raises:
        WrongTypeError: the field belongs to another kind of object.
    """
    depth = text(reply)
    if not (depth.isascii() and depth.isdigit()):
        raise WrongTypeError(
            f"the name is in use by something else: {depth!r} is not the depth of a holder"
        )
    return int(depth[:19])  # Redis counts with 64 bits


def _note(reply: object) -> str | int | None:
    """Read a text, a number, or nil."""
    return reply if reply is None or isinstance(reply, int) else text(reply)


ACQUIRE: Final = load("lock_acquire", grant_or_left)
ASK: Final = Variants("lock_ask", held_or_refused, patient=True)
RELEASE: Final = Variants("lock_release", freed)
RENEW: Final = load("lock_renew", kept)
FENCED_ACQUIRE: Final = load("fenced_acquire", held_or_left)
FENCED_ASK: Final = Variants("fenced_ask", held_or_refused, patient=True)
FENCED_RELEASE: Final = Variants("fenced_release", freed)
GIVE: Final = load("lock_give", done)

_QUERY: Final = load("lock_query", status)
_FORCED_NOTE_WRITE = load("forced_note_write", done)
_FORCED_NOTE_READ = load("forced_note_read", _note)
_ONCE = bare("around/once")

FREED: Final = 1
"""The answer for a lock that is free now."""
LEFT_ALONE: Final = 2
"""The answer for a lock that others wait for, so that it needs a release of its own."""

TAKE_ALL: Final = load("locks_acquire", grant_or_left)
"""Take all locks, or none: keys, a lease in milliseconds, and the holder of each."""
LEAVE_ALL: Final = Variants("locks_release", numbers)
"""Free locks: keys and queues, the holder of each and its channel; `FREED`, 0 or `LEFT_ALONE` each."""


def lock_query(lock: str) -> Eval[LockStatus]:
    """Tell who holds the lock, how deep and for how long."""
    return Eval(_QUERY, (lock,), ())


def lock_renew(locks: Sequence[str], lease: float, holders: Sequence[str]) -> Eval[list[bool]]:
    """Keep *locks* for another *lease*; return for each whether its holder still holds it."""
    return Eval(RENEW, tuple(locks), (milliseconds(lease), *holders))


# Releases by force.


def forced_note_write(note: str, why: str, keep: float) -> Eval[bool]:
    """Leave the reason *why* for a holder, for *keep* seconds."""
    return Eval(_FORCED_NOTE_WRITE, (note,), (why, milliseconds(keep)))


def forced_note_read(note: str) -> Eval[str | int | None]:
    """Return why a lock was released by force, and remove the note.

    If there is none, return for how many seconds the server has run; None if it does not tell.
    """
    return Eval(_FORCED_NOTE_READ, (note,), ())


@lru_cache(maxsize=64)
def _remembering(script: Script[Any]) -> Script[Any]:
    return Script(script.name, _ONCE.replace("SCRIPT()", script.text), script.decode)


def remember(call: Eval[Any], request: str, keep: float) -> None:
    """Make *call*, a release that was not sent yet, take effect once.

    Its answer is kept under the key *request* for *keep* seconds. A copy finds it there, and does
    nothing. This key is the last one that may be left out, if the user has no right to it.
    """
    call.script = _remembering(call.script)
    call.keys = (*call.keys, request)
    call.args = (*call.args, f"once {milliseconds(keep)}")
    call.spare_keys, call.spare_args, call.packed = call.spare_keys + 1, 1, None
