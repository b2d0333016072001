"""Readers and writers of two languages at one lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop.conftest import OLD_TOO
from tests.interop.pair import PROMPT, settle, take_turns

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.interop.agent import Answer
    from tests.interop.pair import Pair


@OLD_TOO
def test_readers_of_both_languages_share_and_a_writer_waits_for_the_last(pair: Pair) -> None:
    """Readers enter side by side; the writer is woken by the last one's release and by no other."""
    here, there = pair.at("read")
    for reader in (here, there):
        assert reader.ask("acquire", timeout=0, lease=60)
    writing = pair.of_second("write", "writer").wait(timeout=30)
    here.ask("release")
    assert not _done(writing)
    there.ask("release")
    assert writing.result(PROMPT).value is True
    assert not here.ask("acquire", timeout=0)
    pair.of_second("write", "writer").ask("release")


def test_a_writer_is_followed_by_all_readers_at_once(pair: Pair) -> None:
    """A write release wakes every waiting reader of both languages."""
    writer = pair.of_first("write")
    readers = [party for n in range(3) for party in pair.at("read", f"r{n}")]
    assert writer.ask("acquire", lease=60)
    waiting = [reader.start("acquire", timeout=30, lease=60) for reader in readers]
    _done(waiting[0])
    writer.ask("release")
    assert [entering.result(PROMPT).value for entering in waiting] == [True] * len(readers)
    for reader in readers:
        reader.ask("release")
    assert not writer.ask("locked")


def test_a_downgraded_writer_lets_the_other_language_read(pair: Pair) -> None:
    """A writer that also reads keeps reading when it stops writing.

    Readers of the other language may enter then.
    """
    writer, reader, other = pair.of_first("write"), pair.of_first("read"), pair.of_second("read")
    assert writer.ask("acquire", lease=60)
    assert reader.ask("acquire", timeout=0, lease=60)
    assert not other.ask("acquire", timeout=0)
    writer.ask("release")
    assert other.ask("acquire", timeout=0, lease=60)
    assert not pair.of_second("write", "t3").ask("acquire", timeout=0)
    other.ask("release")
    reader.ask("release")
    assert pair.of_second("write").ask("acquire", timeout=0)
    pair.of_second("write").ask("release")


@pytest.mark.parametrize("one_pair", ["sync>java"], indirect=True)
def test_a_downgrade_in_python_wakes_javas_readers(one_pair: Pair) -> None:
    """Python announces a downgrade, whether or not ours wait; Redisson does not."""
    writer, reader = one_pair.of_first("write"), one_pair.of_first("read")
    other = one_pair.of_second("read")
    for ours_wait in (False, True):
        assert writer.ask("acquire", lease=60)
        assert reader.ask("acquire", timeout=0, lease=60)
        waiting = [other.wait(timeout=30)]
        if ours_wait:
            ours = one_pair.of_first("write", "t2")
            waiting.append(ours.wait(timeout=30))
        writer.ask("release")
        assert waiting[0].result(PROMPT).value is True
        other.ask("release")
        reader.ask("release")
        if ours_wait:
            assert waiting[1].result(PROMPT).value is True
            ours.ask("release")


@pytest.mark.parametrize("one_pair", ["java>sync"], indirect=True)
def test_a_downgrade_in_java_is_silent(one_pair: Pair) -> None:
    """Redisson announces no downgrade: a Python reader enters when it looks again.

    Here it looks because the Java reader leaves.
    """
    writer, reader = one_pair.of_first("write"), one_pair.of_first("read")
    assert writer.ask("acquire", lease=60)
    assert reader.ask("acquire", timeout=0, lease=60)
    waiting = one_pair.of_second("read").wait(timeout=30)
    writer.ask("release")
    assert not _done(waiting), "Redisson announces downgrades now: say so in docs/reference/wire.md"
    reader.ask("release")
    assert waiting.result(PROMPT).value is True
    one_pair.of_second("read").ask("release")


@pytest.mark.parametrize("one_pair", ["java>sync"], indirect=True)
def test_javas_read_lock_object_remembers_a_lease(one_pair: Pair) -> None:
    """A Java read lock that was used with a lease begins its next renewed hold with it.

    That happens if others read meanwhile.
    """
    reader, other = one_pair.at("read")
    assert other.ask("acquire", lease=60)
    assert reader.ask("acquire", lease=7)
    reader.ask("release")
    other.ask("release")
    assert reader.ask("acquire")
    assert other.ask("query")["remaining"] < 8, "Redisson forgets it now: say so in wire.md"
    reader.ask("release")


def _done(waiting: Future[Answer]) -> bool:
    settle()
    return waiting.done()


@pytest.mark.parametrize("one_pair", ["sync>java"], indirect=True)
def test_javas_writers_and_readers_have_their_turns_beside_pythons(one_pair: Pair) -> None:
    """Beside Python's clients in their queue, Java's writers and readers get the lock too."""
    parties = [
        one_pair.of_first("write"),
        one_pair.of_first("write", "t2", client="short"),
        one_pair.of_first("read", "t3"),
        one_pair.of_second("write"),
        one_pair.of_second("read", "t2"),
    ]
    take_turns(parties, 21, timeout=20, lease=60)
