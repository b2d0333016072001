"""Locks as lines of text."""

from __future__ import annotations

import pytest

from interlock.cli.table import Row, clock_time, lines, safe

ROW = Row("orders", "lock", "00:00:05", "1 s ago", "host pid 7", "-")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (0.9, "00:00:00"), (3661, "01:01:01"), (90_061, "1d 01:01:01")],
)
def test_a_duration_is_a_clock_time(seconds: float | None, text: str) -> None:
    """A duration is shown in days, hours, minutes and seconds, or a question mark."""
    assert clock_time(seconds) == text


def test_a_name_cannot_move_the_cursor() -> None:
    """Everything in a name that a terminal would act on is escaped."""
    assert safe("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"
    assert safe("Bestellung ü") == "Bestellung ü"


def test_columns_are_as_wide_as_their_rows() -> None:
    """Each column begins at one place in the headings and in all rows."""
    long = ROW._replace(name="n" * 20)
    heading, first, second = lines([ROW, long], heading=True)

    assert heading.index("KIND") == first.index("lock") == second.index("lock") == 22
    assert first.endswith("-")
    assert list(lines([ROW], heading=False)) == list(lines([ROW], heading=True))[1:]
