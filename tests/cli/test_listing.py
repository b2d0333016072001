"""Locks as lines of text."""

from __future__ import annotations

import pytest

from interlock.cli.listing import HEADINGS, Row, clock_time, lines, widths_of

ROW = Row("orders", "lock", "00:00:05", "1 s ago", "host pid 7", "-")


def test_the_columns_of_the_first_page_are_those_of_all() -> None:
    """Rows of a later page have the columns that the headings have."""
    longer = ROW._replace(name="n" * 20, holder="")
    widths = widths_of([HEADINGS, longer])
    heading, first, second = lines([HEADINGS, longer, ROW._replace(kind="permits by 12")], widths)
    assert heading.index("HELD") == first.index(ROW.held_for)
    assert heading.index("KIND") == first.index("lock") == second.index("permits") == 22
    assert first.endswith("-")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "?"), (0.9, "00:00:00"), (3661, "01:01:01"), (90_061, "1d 01:01:01")],
)
def test_a_duration_is_a_clock_time(seconds: float | None, text: str) -> None:
    """A duration is shown in days, hours, minutes and seconds, or a question mark."""
    assert clock_time(seconds) == text
