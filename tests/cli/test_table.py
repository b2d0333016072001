"""Locks as lines of text."""

from __future__ import annotations

import pytest

from interlock.cli.table import Row, clock_time, lines, places, safe, widths_of

ROW = Row("orders", "lock", "00:00:05", "1 s ago", "host pid 7", "-")


def test_the_columns_of_the_first_page_are_those_of_all() -> None:
    """Rows of a later page have the columns that the headings have."""
    longer = ROW._replace(name=f"{ROW.name}{ROW.name}", holder="")
    widths = widths_of([longer])
    heading, first = lines([longer], heading=True, widths=widths)
    [second] = lines([ROW._replace(kind="permits by 12")], heading=False, widths=widths)
    assert heading.index("HELD") == first.index(ROW.held_for)
    assert second.startswith(f"{ROW.name}{' ' * (widths[0] - len(ROW.name))}  permits by 12")


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


def test_wide_letters_take_two_columns() -> None:
    """Columns begin at one place."""
    wide = ROW._replace(name="\u65e5\u672c\u8a9e")
    first, second = lines([ROW, wide], heading=False)

    assert places(second[: second.index("lock")]) == first.index("lock")
    assert places("e\u0301") == 1


def test_a_narrow_terminal_shows_trouble_first() -> None:
    """A deadlock is seen in 60 columns."""
    row = ROW._replace(waiting="DEADLOCK 1 client, first 00:01:03", holder="h" * 60)
    heading, line = lines([row], heading=True, narrow=True)

    assert heading.split()[:3] == ["NAME", "RENEWED", "WAITING"]
    assert row.waiting in line[:60]
