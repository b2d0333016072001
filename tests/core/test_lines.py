"""The names of the lines that waiters stand in."""

from __future__ import annotations

import pytest

from interlock._core.queue.lines import Line, channel_of, line_of, section


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (line_of("channel", "key"), "channel"),
        # It has the channel of `a`.
        (line_of("channel", "{a}"), ("channel", "{a}")),
        (section("channel", "3"), ("channel", "3")),
        (section("channel", "one", "two"), ("channel", "one", "two")),
        (section(line_of("channel", "{a}"), "3"), ("channel", "{a}", "3")),
    ],
)
def test_a_line_is_named_after_its_channel_and_what_is_wanted(line: Line, name: Line) -> None:
    """A name has a part for each difference, and its messages come on one channel."""
    assert line == name
    assert channel_of(line) == "channel"


def test_parts_cannot_be_mistaken_for_others() -> None:
    """The same text in other parts names another line."""
    assert section("channel", "ab", "c") != section("channel", "a", "bc")
