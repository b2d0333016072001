"""The frame cutter: a proxy must pass on the very bytes."""

from __future__ import annotations

import pytest
from tests.support.resp import FrameBuffer


@pytest.mark.parametrize(
    "frame",
    [
        b"+OK\r\n",
        b"-ERR x\r\n",
        b":-7\r\n",
        b"_\r\n",
        b"#t\r\n",
        b",1.5\r\n",
        b"(123456789012345678901234567890\r\n",
        b"$-1\r\n",
        b"$0\r\n\r\n",
        b"$4\r\n\r\n\r\n\r\n",
        b"=7\r\ntxt:a\r\n\r\n",
        b"!5\r\nERR x\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n*1\r\n$1\r\na\r\n:1\r\n",
        b"~1\r\n:1\r\n",
        b">2\r\n+invalidate\r\n*0\r\n",
        b"%1\r\n+k\r\n*1\r\n+v\r\n",
        b"|1\r\n+ttl\r\n:3\r\n$1\r\na\r\n",
    ],
)
def test_frames_are_cut_exactly_wherever_the_stream_is_split(frame: bytes) -> None:
    """Every kind of frame comes out whole, once, at its last byte and not before."""
    for cut in range(1, len(frame)):
        frames = FrameBuffer()
        assert frames.feed(frame + frame[:cut]) == [frame]
        assert frames.feed(frame[cut:-1][: max(0, len(frame) - cut - 1)]) == []
        assert frames.feed(frame[-1:] + frame) == [frame, frame]
