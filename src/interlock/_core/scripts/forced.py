"""The scripts of an operator who releases a hold by force, and of the holder who asks why."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from interlock._core.model.effects import NEVER, Eval, Script
from interlock._core.scripts.loader import load
from interlock._core.scripts.script import done, milliseconds, text
from interlock._core.scripts.source import around

_BEGIN, _END = around("once")


def _note(reply: object) -> str | int | None:
    """Read a text, a number, or nil."""
    return reply if reply is None or isinstance(reply, int) else text(reply)


_FORCED_NOTE_WRITE = load("forced_note_write", done)
_FORCED_NOTE_READ = load("forced_note_read", _note)


def forced_note_write(note: str, why: str, keep: float, *, deadline: float = NEVER) -> Eval[bool]:
    """Leave the reason *why* for a holder, for *keep* seconds."""
    return Eval(_FORCED_NOTE_WRITE, (note,), (why, milliseconds(keep)), deadline)


def forced_note_read(note: str, *, deadline: float = NEVER) -> Eval[str | int | None]:
    """Return why a lock was released by force, and remove the note.

    If there is none, return for how many seconds the server has run; None if it does not tell.
    """
    return Eval(_FORCED_NOTE_READ, (note,), (), deadline)


@lru_cache(maxsize=64)
def _remembering(script: Script[Any]) -> Script[Any]:
    return Script(script.name, _BEGIN + script.text + _END, script.decode, varies=True)


def remember(call: Eval[Any], request: str, keep: float) -> None:
    """Make *call*, a release that was not sent yet, take effect once.

    Its answer is kept under the key *request* for *keep* seconds. A copy finds it there, and does
    nothing. This key is the last one that may be left out, if the user has no right to it.
    """
    call.script = _remembering(call.script)
    call.keys = (*call.keys, request)
    call.args = (*call.args, f"once {milliseconds(keep)}")
    call.spare_keys, call.spare_args, call.packed = call.spare_keys + 1, 1, None
