"""The queue of readers and writers beside Redisson's: a message of each wakes the other."""

from __future__ import annotations

from concurrent.futures import wait
from typing import TYPE_CHECKING

import pytest
from tests.interop.pair import PROMPT, Pair, Party

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.interop.agent import Answer


def _parties(pair: Pair, kind: str, thread: str = "t1") -> tuple[Party, Party]:
    """Return both at one lock."""
    name = f"{pair.name}:write"
    return (
        Party(pair.first, thread, {"kind": kind, "name": name}),
        Party(pair.second, thread, {"kind": kind, "name": name}),
    )


def test_a_release_wakes_the_waiter_of_the_other_language(pair: Pair) -> None:
    """A waiter acquires within moments of the release, while the lease would last for a minute."""
    holder, waiter = _parties(pair, "write")
    for _ in range(3):
        assert holder.ask("acquire", lease=60)
        waiting = waiter.wait(timeout=30)
        released = holder.start("release").result(PROMPT)
        acquired = waiting.result(PROMPT)
        assert acquired.value is True
        assert released.started < acquired.ended < released.ended + 1.5
        assert not holder.ask("acquire", timeout=0)
        waiter.ask("release")
    assert not holder.ask("locked")


def test_both_languages_have_their_turns_among_several_waiters(pair: Pair) -> None:
    """Two waiters of each language all have their turns, each soon after the one before."""
    holder, _ = _parties(pair, "write")
    assert holder.ask("acquire", lease=60)
    waiting: dict[Future[Answer], Party] = {}
    for thread in ("t2", "t3"):
        for party in _parties(pair, "write", thread):
            waiting[party.wait(timeout=30)] = party
    holder.ask("release")
    while waiting:
        (turn,), _ = wait(waiting, PROMPT, return_when="FIRST_COMPLETED")  # never two at a time
        assert turn.result().value is True
        waiting.pop(turn).ask("release")
    assert not holder.ask("locked")


@pytest.mark.parametrize("one_pair", ["sync>java", "asyncio>java"], indirect=True)
def test_who_comes_down_wakes_javas_readers(one_pair: Pair) -> None:
    """A writer that reads as well tells Java when it stops to write, whether or not ours wait."""
    (writer, _), (reader, other) = _parties(one_pair, "write"), _parties(one_pair, "read")
    for ours_wait in (False, True):
        assert writer.ask("acquire", lease=60)
        assert reader.ask("acquire", timeout=0, lease=60)
        waiting = [other.wait(timeout=30)]
        if ours_wait:
            ours, _ = _parties(one_pair, "write", "t2")
            waiting.append(ours.wait(timeout=30))
        writer.ask("release")
        assert waiting[0].result(PROMPT).value is True
        other.ask("release")
        reader.ask("release")
        if ours_wait:
            assert waiting[1].result(PROMPT).value is True
            ours.ask("release")


def test_entries_count_across_languages(pair: Pair) -> None:
    """A reader that entered twice keeps the other language's writer out until it left twice."""
    (reader, _), (_, writer) = _parties(pair, "read"), _parties(pair, "write")
    assert reader.ask("acquire", lease=60)
    assert reader.ask("acquire", lease=60)
    reader.ask("release")
    assert not writer.ask("acquire", timeout=0)
    assert not writer.ask("acquire", timeout=4.5)
    reader.ask("release")
    assert writer.ask("acquire", timeout=0)
    writer.ask("release")
