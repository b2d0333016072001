"""Match names as the command KEYS of Redis does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def glob(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a name matches *pattern*, exactly as Redis matches keys.

    Redis compares bytes: ``?`` is one byte of UTF-8.

    Source:
        stringmatchlen in util.c of Redis 8.
    """
    text, place = pattern.encode(), 0
    parts: list[bytes] = []
    while place < len(text):
        each = text[place : place + 1]
        if each == b"*":
            parts.append(b"" if parts[-1:] == [b".*"] else b".*")
        elif each == b"?":
            parts.append(b".")
        elif each == b"[":
            place, part = _class_of(text, place + 1)
            parts.append(part)
        else:
            if each == b"\\" and place + 1 < len(text):
                place += 1
            parts.append(re.escape(text[place : place + 1]))
        place += 1
    matches = re.compile(b"".join(parts), re.DOTALL).fullmatch
    return lambda name: matches(name.encode()) is not None


def _class_of(text: bytes, place: int) -> tuple[int, bytes]:
    """Return where the class that begins at *place* ends, and a regular expression for it.

    One that is not closed ends with the pattern.
    """
    negated = text[place : place + 1] == b"^"
    place += negated
    found: set[int] = set()
    while place < len(text) and text[place] != ord("]"):
        if text[place] == ord("\\") and place + 1 < len(text):
            place += 1
            found.add(text[place])
        elif text[place + 1 : place + 2] == b"-" and place + 2 < len(text):
            first, last = sorted((text[place], text[place + 2]))
            found.update(range(first, last + 1))
            place += 2
        else:
            found.add(text[place])
        place += 1
    if not found:
        return place, b"." if negated else b"(?!)"
    inside = b"".join(b"\\x%02x" % byte for byte in sorted(found))
    return place, (b"[^%s]" if negated else b"[%s]") % inside
