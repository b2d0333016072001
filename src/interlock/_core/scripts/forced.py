"""The scripts of an operator who releases a hold by force, and of the holder who asks why."""

from __future__ import annotations

from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.script import done, load, load_variants, milliseconds, text


def _note(reply: object) -> str | int | None:
    """Read a text, a number, or nil."""
    return reply if reply is None or isinstance(reply, int) else text(reply)


_FORCED_NOTE_WRITE = load("forced_note_write", done)
_FORCED_NOTE_READ = load("forced_note_read", _note)
_GROUP_LOCK_BREAK = load_variants("group_lock_break", done)


def forced_note_write(note: str, why: str, keep: float, *, deadline: float = NEVER) -> Eval[bool]:
    """Leave the reason *why* for a holder, for *keep* seconds."""
    return Eval(_FORCED_NOTE_WRITE, (note,), (why, milliseconds(keep)), deadline)


def forced_note_read(note: str, *, deadline: float = NEVER) -> Eval[str | int | None]:
    """Return why a lock was released by force, and remove the note.

    If there is none, return for how many seconds the server has run; None if it does not tell.
    """
    return Eval(_FORCED_NOTE_READ, (note,), (), deadline)


def group_lock_break(
    group: str, holder: str, publish: str, channel: str, *, deadline: float = NEVER
) -> Eval[bool]:
    """Free all fields of *holder*; False if it has none."""
    return Eval(_GROUP_LOCK_BREAK[publish], (group,), (holder, channel), deadline)
