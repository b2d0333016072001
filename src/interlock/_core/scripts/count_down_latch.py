"""The scripts of the count-down latch."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock._core.scripts.loader import Variants, load
from interlock._core.scripts.script import done, number, pair, text


class LatchStatus(NamedTuple):
    """What the server knows of a latch.

    Attributes:
        left: what is left to be counted down; 0 if there is no latch.
        ending: how it ended last, ``"open <mark>"`` or ``"deleted <mark>"``; None if it did not
            end recently.
    """

    left: int
    ending: str | None


def _status(reply: object) -> LatchStatus:
    count, ending = pair(reply)
    return LatchStatus(number(count), None if ending is None else text(ending))


LATCH_SET_UP: Final = Variants("latch_set_up", number)
LATCH_TRY_SET: Final = Variants("latch_try_set", done)
LATCH_COUNT_DOWN: Final = Variants("latch_count_down", number)
LATCH_QUERY: Final = load("latch_query", _status)
LATCH_DELETE: Final = Variants("latch_delete", done)
