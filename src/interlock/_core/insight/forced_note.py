"""The note that an operator who breaks a hold leaves for its holder; it is read once.

Theory. At its next renewal the holder finds that its field is gone, and asks why. The note is left
before the field is removed, so that the holder cannot ask too early. If there was nothing to break,
the note is taken back, because it must not explain another loss. A hold that is gone without a
note was not broken by our clients: its key was deleted, or the server lost it.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from itertools import islice
from typing import TYPE_CHECKING

from interlock._core.model import names
from interlock._core.model.effects import Batch
from interlock._core.scripts.forced import forced_note_read, forced_note_write
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock._core.model.effects import Op
    from interlock._core.model.holds import Hold
    from interlock._core.upkeep.session import Session

ASKING = 0.5
"""Seconds that a holder waits for the reason of its loss."""
MOST = 100
"""Holders of one lock for whom notes are left."""


def leave_note(session: Session, key: str, holder: str, reason: str) -> Op[None]:
    """Leave *reason* for the *holder* of *key*; without a reason an empty note, if that works.

    A server without memory refuses the note. The hold is broken all the same: that frees memory.
    """
    if reason:
        note = names.forced_note(key, holder)
        try:
            _ = yield from session.persist(forced_note_write(note, reason, names.NOTE_KEPT))
        except ServerUnavailableError as error:
            if error.code != "OOM":
                raise
    else:
        yield from leave_notes(session, key, [holder])


def leave_notes(
    session: Session, key: str, holders: Iterable[str], keep: float = names.NOTE_KEPT
) -> Op[None]:
    """Leave notes without a reason for *holders* of *key* for *keep* seconds, if that works.

    If it does not, those holders are told that theirs is gone.
    """
    if not session.options.card:
        return
    calls = [
        forced_note_write(
            names.forced_note(key, holder),
            "",
            min(keep, names.NOTE_KEPT),
            deadline=session.clock() + ASKING,
        )
        for holder in islice(holders, MOST)
    ]
    if calls:
        with suppress(InterlockError):
            _ = yield from Batch(tuple(calls))


def take_note_back(session: Session, key: str, holder: str, reason: str) -> Op[None]:
    """Remove the note of *reason*, if one was left."""
    if reason or session.options.card:
        with nullcontext() if reason else suppress(InterlockError):
            _ = yield from session.persist(forced_note_read(names.forced_note(key, holder)))


def ask_why(session: Session, hold: Hold, *, alone: bool = True) -> Op[None]:
    """Read the note that an operator may have left for *hold*, which is lost.

    Without an answer only a failover can explain the loss. Unless this asks *alone*, somebody else
    may have taken the note, so that there being none is no answer.
    """
    if session.options.card:
        note = names.forced_note(hold.key, hold.holder)
        call = forced_note_read(note, deadline=session.clock() + ASKING)
        with suppress(InterlockError):
            answer = call.script.decode((yield call))
            if alone or isinstance(answer, str):
                hold.hear(answer)
    hold.recall_failover()
