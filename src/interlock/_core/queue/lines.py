"""The lines that local waiters stand in: one for each thing that a client waits for.

Most often a line is named after its channel. If waiters of one channel wait for different things,
the name is a tuple: the channel, and what they want.
"""

from __future__ import annotations

from typing import TypeAlias

from interlock._core.model import names

Line: TypeAlias = str | tuple[str, ...]
"""The name of a line: a channel, or a section of it."""


def section(line: Line, *wanted: str) -> Line:
    """Return the section of *line* for those who want *wanted*."""
    return (line, *wanted) if isinstance(line, str) else (*line, *wanted)


def line_of(channel: str, key: str) -> Line:
    """Return the line of those who wait for *key* on *channel*; most often *channel* itself.

    Names that differ only in braces have one channel. Their waiters wait for different things.
    """
    return section(channel, key) if names.shares_channels(key) else channel


def channel_of(line: Line) -> str:
    """Return the channel whose messages are for *line*."""
    return line if isinstance(line, str) else line[0]
