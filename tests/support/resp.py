"""Cut a RESP stream into whole frames, as the bytes they are."""

from __future__ import annotations

_LINES = frozenset(b"+-:_#,(")
_BULKS = frozenset(b"$=!")
_AGGREGATES = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2, ord("|"): 2}
_ATTRIBUTE = ord("|")


class FrameBuffer:
    """Collects what arrives and gives it back frame by frame.

    hiredis parses frames but does not tell where they end, and a proxy must pass on the very bytes.
    """

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add *data* and return the frames that are complete now.

        Raises:
            ValueError: This is not RESP; inline commands are not taken either.
        """
        self._data += data
        frames: list[bytes] = []
        start = 0
        while (end := _frame_end(self._data, start)) is not None:
            frames.append(bytes(self._data[start:end]))
            start = end
        del self._data[:start]
        return frames


def _frame_end(data: bytearray, start: int) -> int | None:
    line_end = data.find(b"\r\n", start)
    if line_end < 0:
        return None
    kind, end = data[start], line_end + 2
    if kind in _LINES:
        return end
    if kind in _BULKS:
        size = int(data[start + 1 : line_end])
        if size >= 0:  # -1: null
            end += size + 2
        return end if end <= len(data) else None
    if kind not in _AGGREGATES:
        raise ValueError(f"not a RESP frame: {bytes(data[start : start + 40])!r}")
    items = int(data[start + 1 : line_end]) * _AGGREGATES[kind]
    if kind == _ATTRIBUTE:  # and the reply that it describes
        items += 1
    for _ in range(items):
        next_end = _frame_end(data, end)
        if next_end is None:
            return None
        end = next_end
    return end
