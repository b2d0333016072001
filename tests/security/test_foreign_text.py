"""Text of others writes no second line, and gives no terminal or page an order."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
from tests.faces.face_calls import call, told

import interlock
from interlock._core.insight.card import CARD
from interlock._core.model.foreign_text import safe
from interlock._links.urls import open_url
from interlock.inspection import Reader
from interlock.options import Options

if TYPE_CHECKING:
    import redis
    from tests.objects.awaited import Face

EVIL = "\x1b]0;owned\x07\r\nERROR root forged \N{RIGHT-TO-LEFT OVERRIDE}\N{ZERO WIDTH SPACE}\x9b2J"
TRIES = 30
HOLDER = f"{EVIL}:1"
FORGER = "00000000-0000-0000-0000-00000000f00d"


def test_what_is_not_printable_is_escaped() -> None:
    """Controls, marks of direction, characters without a width and halves are escaped, once."""
    assert safe("caf\u00e9 \U0001f512") == "caf\u00e9 \U0001f512"
    assert safe("a\n\x1b[2J") == r"a\n\x1b[2J"
    assert safe("\u202e\u200b\u2028\ud800") == r"\u202e\u200b\u2028\ud800"
    assert safe(safe(EVIL)) == safe(EVIL)
    assert safe(EVIL).isprintable()


async def test_a_forged_holder_is_told_in_one_line(
    face: Face, redis_url: str, redis_client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors and the log show a forged holder id without its orders."""
    redis_client.hset("stuck", HOLDER, 1)
    redis_client.pexpire("stuck", 600_000)
    client = face.module.connect(redis_url, slow_acquire=0.01, lease=0.9)
    with caplog.at_level(logging.WARNING, "interlock"):
        for _ in range(TRIES):
            assert not await call(face, client.lock("stuck").acquire, timeout=1)
            if any(safe(HOLDER) in each.getMessage() for each in caplog.records):
                break
    with pytest.raises(interlock.NotHeldError) as not_held:
        await call(face, client.lock("stuck").release)
    # No holder id looks like this. So for operators it is no lock.
    assert await call(face, client.describe, "stuck") is None
    await told(client.close())
    logged = [each.getMessage() for each in caplog.records]
    assert any(safe(HOLDER) in line for line in logged)
    assert safe(HOLDER) in str(not_held.value)
    assert all(text.isprintable() for text in (*logged, str(not_held.value)))


def test_a_forged_card_is_told_in_one_line(redis_url: str, redis_client: redis.Redis) -> None:
    """What a card tells of its client, holds and waits has no orders in it."""
    client = {"format": 1, "period": 10.0, "host": EVIL, "program": EVIL, "version": EVIL}
    entry = {"age": 5.0, "owner": 1, "lease": 30.0, "thread": EVIL, "trace": EVIL, "kind": EVIL}
    fields = {
        "client": json.dumps(client),
        "written": "1",
        f"h {FORGER}:1 mine": json.dumps(entry),
        f"w {FORGER}:{EVIL} stuck": json.dumps(entry),
        f"p {FORGER}:{EVIL} wished": json.dumps(entry),
    }
    redis_client.hset(CARD.format(FORGER), mapping=fields)
    with Reader(*open_url(redis_url, Options())) as reader, reader._service.asked():
        card = reader._cards.of({FORGER}).get(FORGER)
    assert card is not None
    told = [card.client.host, card.client.program, card.client.version]
    for entries in (card.holds, card.waits, card.wishes):
        assert len(entries) == 1
        for entry_of in entries.values():
            told += [entry_of.holder, entry_of.thread]
    told += [hold.trace_id for hold in card.holds.values()]
    assert len(told) == 10
    assert all(text and text.isprintable() for text in told)
