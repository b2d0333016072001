"""The scripts that write a client's card, and read there who has a hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.replies import done, milliseconds, pair
from interlock._core.scripts.source import load

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST = 4096
"""Bytes of one value that are read."""

_CARD_WRITE = load("card_write", done)
_CARD_HOLDER = load("card_holder", pair)


def card_write(
    card: str, index: str, client: str, keep: float, fields: Sequence[str]
) -> Eval[bool]:
    """Replace a client's card, or remove it if there are no *fields*.

    Args:
        card: the key of the card.
        index: the key of the sorted set of all clients; empty if it is in another hash slot.
        client: the client's id.
        keep: seconds for which the server keeps the card.
        fields: names and values in turn.
    """
    keys = (card, index) if index else (card,)
    args: tuple[str | int, ...] = (client, milliseconds(keep), *fields)
    return Eval(_CARD_WRITE, keys, args)


def card_holder(card: str, field: str, *, deadline: float = NEVER) -> Eval[tuple[object, object]]:
    """Return what a client's card says of its client, and in *field* of a hold; or empty texts."""
    return Eval(_CARD_HOLDER, (card,), (field, _LONGEST), deadline)
