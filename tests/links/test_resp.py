"""Replies are parsed in C or in Python, and hiredis agrees with both."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any, cast

import hiredis
import pytest

from interlock._links import resp

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

WHOLE = [
    *(b"$-1\r\n", b"*-1\r\n", b"*0\r\n", b"$0\r\n\r\n", b"+OK\r\n", b"+\r\n", b"-ERR no\r\n"),
    *(b":0\r\n", b":-1\r\n", b":%d\r\n" % -(2**63), b":%d\r\n" % (2**63 - 1)),
    *(b"$4\r\n\r\n\r\n\r\n", b"-\xff\r\n", b"*1\r\n-ERR inside\r\n"),
    *(b"*2\r\n:1\r\n:-77\r\n", b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n$-1\r\n"),
]
NONSENSE = [
    *(b"nonsense\r\n", b"\r\n", b"_\r\n", b":\r\n", b":x\r\n", b":1\n\r\n", b":+1\r\n", b"$-2\r\n"),
    *(b":%d\r\n" % 2**63, b"$1\r\nabc\r\n", b"*-2\r\n", b"$%d\r\n" % 2**31, b"*%d\r\n" % 2**40),
    *(b"*1\r\n" * 20, b"*2\r\n:1\r\nx", b":" + b"1" * 40),
]


@pytest.fixture(params=[pytest.param("C", marks=pytest.mark.needs("gcc")), "Python"])
def parse_all(request: pytest.FixtureRequest) -> Callable[..., Any]:
    if request.param == "Python":
        return resp.parse_all_in_python
    from interlock._links._exchange import parse_all

    return parse_all


def same(one: object, other: object) -> bool:
    """Whether two replies are equal; errors have the same text."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Exception):
        return str(one) == str(other)
    return (one, type(one)) == (other, type(other))


def any_reply(chance: random.Random, depth: int = 0) -> bytes:
    if depth < 4 and chance.random() < 0.4:
        items = [any_reply(chance, depth + 1) for _ in range(chance.randint(0, 4))]
        return b"*%d\r\n" % len(items) + b"".join(items)
    text = chance.randbytes(chance.randint(0, 20))
    return chance.choice([*WHOLE, b"$%d\r\n%b\r\n" % (len(text), text)])


@pytest.mark.parametrize("reply", WHOLE, ids=repr)
def test_a_whole_reply_is_read(parse_all: Callable[..., Any], reply: bytes) -> None:
    """It is what hiredis reads, and the place behind it is told."""
    expected = hiredis.Reader()
    expected.feed(reply)
    [value], *rest = parse_all(reply + b":", resp.ReplyError)
    assert rest == [len(reply), 1]
    assert same(value, cast("object", expected.gets()))


@pytest.mark.parametrize("reply", WHOLE, ids=repr)
def test_what_is_missing_is_told(parse_all: Callable[..., Any], reply: bytes) -> None:
    """Each part of a reply lacks something, and never more than is really missing."""
    for size in range(1, len(reply)):
        values, end, missing = parse_all(b":1\r\n" + reply[:size], resp.ReplyError)
        assert (values, end) == ([1], 4)
        assert 1 <= missing <= len(reply) - size


@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
def test_nonsense_is_told(parse_all: Callable[..., Any], nonsense: bytes) -> None:
    """What no server of RESP2 sends is refused, before the memory for it is asked for."""
    assert parse_all(nonsense, resp.ReplyError) == ([], 0, -1)
    assert parse_all(b":1\r\n" + nonsense, resp.ReplyError) == ([1], 4, -1)


def test_all_replies_are_read_at_once(parse_all: Callable[..., Any]) -> None:
    """If a part of another reply follows, its place is told, and how much of it is missing."""
    stream = b"".join(WHOLE)
    reader = hiredis.Reader()
    reader.feed(stream)
    values = parse_all(stream, resp.ReplyError)
    assert len(values) == len(WHOLE)
    assert all(same(value, cast("object", reader.gets())) for value in values)
    assert parse_all(b"", resp.ReplyError) == []
    assert parse_all(b":1\r\n$4\r\nab", resp.ReplyError) == ([1], 4, 4)
    assert parse_all(b":1\r\n:2\r\n:", resp.ReplyError) == ([1, 2], 8, 1)


@pytest.mark.parametrize("seed", range(20))
def test_pieces_are_joined(
    parse_all: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """However the network cuts a stream of replies, all come out as soon as they are whole."""
    monkeypatch.setattr(resp, "parse_all", parse_all)
    chance = random.Random(seed)
    stream = b"".join(any_reply(chance) for _ in range(20))
    ours, theirs = resp.Replies(), hiredis.Reader()
    while stream:
        size = chance.randint(1, 60)
        theirs.feed(stream[:size])
        for found in ours.read(stream[:size]):
            assert same(found, cast("object", theirs.gets()))
        stream = stream[size:]
        assert theirs.gets() is False
    assert not ours.wrong


def test_replies_are_taken_one_by_one() -> None:
    """What was fed comes out in order. Then there is none until the next is whole."""
    replies = resp.Replies()
    replies.feed(b":1\r\n:2\r\n:")
    assert [replies.gets(), replies.gets(), replies.gets()] == [1, 2, False]
    replies.feed(b"3\r\nnonsense")
    assert replies.gets() == 3
    with pytest.raises(resp.ParserError, match="no reply"):
        replies.gets()


class _StruckError(BaseException):
    """A Ctrl-C."""


def _strike_at(place: int) -> Any:
    """Return a tracer that strikes before a bytecode of `Replies.read`."""
    left = iter(range(place, -1, -1))

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code is not resp.Replies.read.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and next(left, 1) == 0:
            raise _StruckError
        return trace

    return trace


def _read(pieces: list[bytes], place: int | None = None) -> list[object]:
    """Return the replies of *pieces*; a strike comes at *place* while the third is read."""
    replies, former = resp.Replies(), sys.gettrace()
    for number, piece in enumerate(pieces):
        sys.settrace(_strike_at(place) if number == 2 and place is not None else former)
        try:
            replies.feed(piece)
        except _StruckError:
            assert number == 2
        finally:
            sys.settrace(former)
    return list(replies.ready)


@pytest.mark.parametrize("third", [b":2\r\n:3\r\n$1\r", b"2\r\n:2\r\n", b":"])
def test_a_ctrl_c_loses_no_piece_that_came_before(third: bytes) -> None:
    """It may lose what has just come, and what was made of it. It moves no border of a reply."""
    pieces = [b":0\r\n", b"*2\r\n:1\r\n", third, b":4\r\n", b":5\r\n" * 9]
    read, lost = _read(pieces), _read([*pieces[:2], *pieces[3:]])
    found = [_read(pieces, place) for place in range(200)]
    assert found[0] != read == found[-1]  # it strikes at the first, and then not any more
    for each in found:
        assert any(all(reply in rest for reply in each) for rest in (iter(read), iter(lost)))


def test_nonsense_follows_whole_replies(
    parse_all: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replies before it still count."""
    monkeypatch.setattr(resp, "parse_all", parse_all)
    replies = resp.Replies()
    assert replies.read(b":1\r\n:") == [1]
    assert replies.read(b"2\r\nnonsense\r\n") == [2]
    assert replies.wrong == resp.NO_REPLY


@pytest.mark.parametrize("begin", [b"$900\r\n", b"*600\r\n", b"+" + b"x" * 999])
def test_a_reply_may_be_too_long(monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
    """That is told as soon as it is known."""
    monkeypatch.setattr(resp, "LONGEST_REPLY", 800)
    replies = resp.Replies()
    assert replies.read(b"$790\r\n") == []
    assert replies.read(b"x" * 790 + b"\r\n" + begin) == [b"x" * 790]
    assert "more than 800 bytes" in replies.wrong
