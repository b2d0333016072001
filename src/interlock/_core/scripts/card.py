"""The script that writes a client's card."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import Eval
from interlock._core.scripts.script import done, load, milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence

_CARD_WRITE = load("card_write", done)


def card_write(
    card: str, index: str, client: str, number: int, keep: float, fields: Sequence[str]
) -> Eval[bool]:
    """Replace a client's card, or remove it if there are no *fields*.

    Args:
        card: the key of the card.
        index: the key of the sorted set of all clients; empty if it is in another hash slot.
        client: the client's id.
        number: the number of this card; a card with a larger number is not replaced.
        keep: seconds for which the server keeps the card.
        fields: names and values in turn.
    """
    keys = (card, index) if index else (card,)
    args: tuple[str | int, ...] = (client, number, milliseconds(keep), *fields)
    return Eval(_CARD_WRITE, keys, args)
