"""Which line of the user's program acquired a hold.

Each acquire notes a function and a byte of its code. Where a card is written, `Hold.acquired_at` makes a
text of them. The faces note the frame that called them, which is the user's. Where a function of
ours may be in between, `note_line` searches, which takes 4,000 instructions in place of 1,000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.hold import is_ours
from interlock._misuse import caller_frame

if TYPE_CHECKING:
    from interlock._core.model.hold import Hold


def note_line(hold: Hold, above: int) -> None:
    """Note in *hold*, which was just acquired, and in its members, where the user's code did that.

    A re-entry changes nothing. The search begins with the frame *above* frames above this one.
    """
    if hold.line is None or is_ours(hold.line):
        frame = caller_frame(above + 1)
        line = frame.f_code, frame.f_lasti
        for part in (hold, *getattr(hold, "members", ())):
            if part.line is None or is_ours(part.line):
                part.line = line
