"""Ask the holders of a lock what their threads and tasks do: their clients answer by card."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from interlock._core.insight.card import ASK
from interlock._links.cluster import Cluster
from interlock._links.resp import ReplyError
from interlock.inspection import cards
from interlock.inspection.card_reader import place_of
from interlock.inspection.info import StackInfo
from interlock.inspection.lock_reply import key_of
from interlock.inspection.words import by_ticket, left_locked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.inspection.info import LockInfo
    from interlock.inspection.service import Service

CardOf: TypeAlias = Callable[[str], cards.Card | None]
"""Read the card of the client with an id; None if there is none."""
ASKED = 16
"""Holders that are asked for their stacks, at most."""
ANSWER_WITHIN = 4.0
"""Seconds in which a client answers; it may have answered another question just before."""
ASK_AGAIN = 0.5
"""Seconds until an unanswered question is asked again."""
DEAF = "its client does not listen"
LOOK_AGAIN = 0.05
"""Seconds between two looks for the answer."""


def stacks_of(service: Service, card_of: CardOf, info: LockInfo) -> Iterator[StackInfo]:
    """Ask the clients of the holders of *info*; yield what each answers.

    Args:
        service: the servers.
        card_of: reads the card of a client.
        info: the lock.

    Cost:
        About four round trips for each holder, and at most `ANSWER_WITHIN` seconds for all.
    """
    until = time.monotonic() + ANSWER_WITHIN
    for holder in info.holders[ASKED:]:
        yield StackInfo(holder.holder, missing=f"only the first {ASKED} holders are asked")
    for holder in info.holders[:ASKED]:
        if by_ticket(holder.client):
            yield StackInfo(holder.holder, missing="a ticket holds it, and no process")
            continue
        if left_locked(holder.client):
            yield StackInfo(holder.holder, missing="its call has ended, and left it locked")
            continue
        if holder.client.dead:
            yield StackInfo(holder.holder, missing="its process is dead")
            continue
        place = place_of(holder)
        if not place[0]:
            yield StackInfo(holder.holder, missing="no card tells whose it is")
            continue
        calls, missing = _stack(service, card_of, place, key_of(info), until)
        if missing.startswith(DEAF) and holder.client.connected is False:
            missing = "its client has no connection: it has ended, or is connecting again"
        yield StackInfo(holder.holder, calls, missing)


def _stack(
    service: Service, card_of: CardOf, place: tuple[str, str], key: str, until: float
) -> tuple[tuple[str, ...], str]:
    """Return the calls of a holder, whose *place* is a client and an id, or why there are none."""
    client_id, holder = place
    before = card_of(client_id)
    if before is None:
        return (), "its client wrote no card: Redisson, card=False, or a hold that is new"
    client = before.client
    look = f"; on {client.host}: py-spy dump --pid {client.pid}" if client.host else ""
    ask_at = 0.0
    node = service.owner(cards.card_key(client_id))
    while (now := time.monotonic()) < until:
        if now >= ask_at:
            ask_at = now + ASK_AGAIN
            [heard] = service.ask(node, [("PUBLISH", ASK.format(client_id), holder)])
            if isinstance(heard, ReplyError):
                return (), f"the question was refused: {heard}"
            # In a cluster a node counts its own listeners only.
            if heard == 0 and not isinstance(service.servers, Cluster):
                return (), f"{DEAF}: it never waited for a lock, or may not{look}"
        time.sleep(LOOK_AGAIN)
        card = card_of(client_id)
        if card is None:
            return (), "the hold is over"
        # What stood there before the question may be old.
        if card.number > before.number and (calls := card.stacks.get((holder, key))) is not None:
            return calls, "" if calls else "its thread or task is not known, or has ended"
    doubt = f"; {client.doubt}" if client.doubt else ""
    return (), f"no answer within {ANSWER_WITHIN:g} s{doubt}{look}"
