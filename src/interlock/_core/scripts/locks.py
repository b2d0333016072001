"""The scripts of the plain, the fenced and the multi lock, and of who releases a hold by force."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

from interlock._core.model.effects import Eval, Script
from interlock._core.model.names import NOTE_KEPT, new_request
from interlock._core.scripts import replies
from interlock._core.scripts.replies import milliseconds
from interlock._core.scripts.source import Variants, bare, load
from interlock.errors import WrongTypeError


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
    match replies.many(reply):
        case [pttl, *fields] if len(fields) % 2 == 0:
            remaining = replies.seconds(pttl)
        case _:
            raise replies.ReplyShapeError(f"expected a PTTL and pairs, got {reply!r}")
    pairs = zip(fields[::2], fields[1::2], strict=True)
    holders = {replies.text(holder): _depth(depth) for holder, depth in pairs}
    return LockStatus(remaining if holders else None, holders)


def _depth(reply: object) -> int:
    """Read the depth of a holder.

    Raises:
        WrongTypeError: the field belongs to another kind of object.
    """
    depth = replies.text(reply)
    if not (depth.isascii() and depth.isdigit()):
        raise WrongTypeError(
            f"the name is in use by something else: {depth!r} is not the depth of a holder"
        )
    return int(depth[:19])  # Redis counts with 64 bits


def _note(reply: object) -> str | int | None:
    """Read a text, a number, or nil."""
    return reply if reply is None or isinstance(reply, int) else replies.text(reply)


ACQUIRE: Final = load("lock_acquire", replies.grant_or_left)
ASK: Final = Variants("lock_ask", replies.held_or_refused)
RELEASE: Final = Variants("lock_release", replies.freed)
RENEW: Final = load("lock_renew", replies.kept)
FENCED_ACQUIRE: Final = load("fenced_acquire", replies.held_or_left)
FENCED_ASK: Final = Variants("fenced_ask", replies.held_or_refused)
FENCED_RELEASE: Final = Variants("fenced_release", replies.freed)
GIVE: Final = load("lock_give", replies.done)

QUERY: Final = load("lock_query", status)
_FORCED_NOTE_WRITE = load("forced_note_write", replies.done)
_FORCED_NOTE_READ = load("forced_note_read", _note)
_ONCE = bare("around/once")

FREED: Final = 1
"""The answer for a lock that is free now."""
LEFT_ALONE: Final = 2
"""The answer for a lock that others wait for, so that it needs a release of its own."""

TAKE_ALL: Final = load("locks_acquire", replies.grant_or_left)
"""Take all locks, or none: keys, a lease in milliseconds, and the holder of each."""
LEAVE_ALL: Final = Variants("locks_release", replies.numbers)
"""Free locks: keys and queues, the holder of each and its channel; `FREED`, 0 or `LEFT_ALONE` each."""


# Releases by force.


def forced_note_write(note: str, why: str) -> Eval[bool]:
    """Leave the reason *why* for a holder."""
    return Eval(_FORCED_NOTE_WRITE, (note,), (why, milliseconds(NOTE_KEPT)))


def forced_note_read(note: str) -> Eval[str | int | None]:
    """Return why a lock was released by force, and remove the note.

    If there is none, return for how many seconds the server has run; None if it does not tell.
    """
    return Eval(_FORCED_NOTE_READ, (note,), ())


@lru_cache(maxsize=64)
def _remembering(script: Script[Any]) -> Script[Any]:
    return Script(script.name, _ONCE.replace("SCRIPT()", script.text), script.decode)


def remember(call: Eval[Any], key: str, client: str) -> None:
    """Make *call* of *client*, a release at *key* that was not sent yet, take effect once.

    Its answer is kept under another key. A copy finds it there, and does nothing. That key is the
    last one that may be left out, if the user has no right to it.
    """
    call.script = _remembering(call.script)
    call.keys = (*call.keys, new_request(key, client))
    call.args = (*call.args, f"once {milliseconds(NOTE_KEPT)}")
    call.spare_keys, call.spare_args, call.packed = call.spare_keys + 1, 1, None
