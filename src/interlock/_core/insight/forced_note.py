"""The note that an operator who breaks a hold leaves for its holder; it is read once.

Theory. At its next renewal the holder finds that its field is gone, and asks why. The note is left
before the field is removed, so that the holder cannot ask too early. If there was nothing to break,
the note is taken back, because it must not explain another loss.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from interlock._core.model import names
from interlock._core.scripts.forced import forced_note_read, forced_note_write
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
    from interlock._core.model.holds import Hold
    from interlock._core.upkeep.session import Session

ASKING = 0.5
"""Seconds that a holder waits for the reason of its loss."""


def leave_note(session: Session, key: str, holder: str, reason: str) -> Op[None]:
    """Leave *reason* for the *holder* of *key*."""
    if reason:
        note = names.forced_note(key, holder)
        _ = yield from session.persist(forced_note_write(note, reason, names.NOTE_KEPT))


def take_note_back(session: Session, key: str, holder: str, reason: str) -> Op[None]:
    """Remove the note of *reason*, if one was left."""
    if reason:
        _ = yield from session.persist(forced_note_read(names.forced_note(key, holder)))


def ask_why(session: Session, hold: Hold) -> Op[None]:
    """Read the note that an operator may have left for *hold*, which is lost.

    Without an answer the loss has no explanation.
    """
    if session.options.card:
        note = names.forced_note(hold.key, hold.holder)
        call = forced_note_read(note, deadline=session.clock() + ASKING)
        with suppress(InterlockError):
            hold.explain(call.script.decode((yield call)))
