"""Replies are parsed in C or in Python, and hiredis agrees with both."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, cast

import hiredis
import pytest

from interlock._links import resp

if TYPE_CHECKING:
    from collections.abc import Callable

WHOLE = [
    *(b"$-1\r\n", b"*-1\r\n", b"*0\r\n", b"$0\r\n\r\n", b"+OK\r\n", b"+\r\n", b"-ERR no\r\n"),
    *(b":0\r\n", b":-1\r\n", b":%d\r\n" % -(2**63), b":%d\r\n" % (2**63 - 1)),
    *(b"$4\r\n\r\n\r\n\r\n", b"-\xff\r\n", b"*1\r\n-ERR inside\r\n"),
    b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n$-1\r\n",
]
NONSENSE = [
    *(b"nonsense\r\n", b"\r\n", b"_\r\n", b":\r\n", b":x\r\n", b":1\n\r\n", b":+1\r\n", b"$-2\r\n"),
    *(b":%d\r\n" % 2**63, b"$1\r\nabc\r\n", b"*-2\r\n", b"$%d\r\n" % 2**31, b"*%d\r\n" % 2**40),
    *(b"*1\r\n" * 20, b"*2\r\n:1\r\nx", b":" + b"1" * 40),
]


@pytest.fixture(params=[pytest.param("C", marks=pytest.mark.needs("gcc")), "Python"])
def parse(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Give each parser."""
    if request.param == "Python":
        return resp.parse_in_python
    from interlock._links._exchange import parse

    return parse


@pytest.fixture(params=[pytest.param("C", marks=pytest.mark.needs("gcc")), "Python"])
def parse_all(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Give each parser of many replies."""
    if request.param == "Python":
        return resp.parse_all_in_python
    from interlock._links._exchange import parse_all

    return parse_all


def _same(one: object, other: object) -> bool:
    """Whether two replies are equal; errors have the same text."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Exception):
        return str(one) == str(other)
    return (one, type(one)) == (other, type(other))


def _reply(chance: random.Random, depth: int = 0) -> bytes:
    if depth < 4 and chance.random() < 0.4:
        items = [_reply(chance, depth + 1) for _ in range(chance.randint(0, 4))]
        return b"*%d\r\n" % len(items) + b"".join(items)
    text = chance.randbytes(chance.randint(0, 20))
    return chance.choice([*WHOLE, b"$%d\r\n%b\r\n" % (len(text), text)])


@pytest.mark.parametrize("reply", WHOLE, ids=repr)
def test_a_whole_reply_is_read(parse: Callable[..., Any], reply: bytes) -> None:
    """It is what hiredis reads, and the place behind it is told."""
    expected = hiredis.Reader()
    expected.feed(reply)
    value, end = parse(b"before" + reply + b"after", 6, resp.ReplyError)
    assert end == 6 + len(reply)
    assert _same(value, cast("object", expected.gets()))


@pytest.mark.parametrize("reply", WHOLE, ids=repr)
def test_what_is_missing_is_told(parse: Callable[..., Any], reply: bytes) -> None:
    """Each part of a reply lacks something, and never more than is really missing."""
    for size in range(len(reply)):
        missing = parse(reply[:size], 0, resp.ReplyError)
        assert isinstance(missing, int)
        assert 1 <= missing <= len(reply) - size


@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
def test_nonsense_is_an_error(parse: Callable[..., Any], nonsense: bytes) -> None:
    """What no server of RESP2 sends is refused, before the memory for it is asked for."""
    with pytest.raises(ValueError, match="no reply"):
        parse(nonsense, 0, resp.ReplyError)


@pytest.mark.parametrize("seed", range(20))
def test_pieces_are_joined(
    parse: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """However the network cuts a stream of replies, all come out, in order."""
    monkeypatch.setattr(resp, "parse", parse)
    chance = random.Random(seed)
    stream = b"".join(_reply(chance) for _ in range(20))
    ours, theirs = resp.Reader(), hiredis.Reader()
    while stream:
        size = chance.randint(1, 30)
        for reader in (ours, theirs):
            reader.feed(stream[:size])
        stream = stream[size:]
        while (found := ours.gets()) is not False:
            assert _same(found, cast("object", theirs.gets()))
        assert theirs.gets() is False


def test_all_replies_are_read_at_once(parse_all: Callable[..., Any]) -> None:
    """If a part of another reply follows, its place is told, and how much of it is missing."""
    stream = b"".join(WHOLE)
    reader = hiredis.Reader()
    reader.feed(stream)
    values = parse_all(stream, resp.ReplyError)
    assert len(values) == len(WHOLE)
    assert all(_same(value, cast("object", reader.gets())) for value in values)
    assert parse_all(b"", resp.ReplyError) == []
    assert parse_all(b":1\r\n$4\r\nab", resp.ReplyError) == ([1], 4, 4)
    assert parse_all(b":1\r\n:2\r\n:", resp.ReplyError) == ([1, 2], 8, 1)
    for nonsense in NONSENSE:
        assert parse_all(b":1\r\n" + nonsense, resp.ReplyError)[1:] == (4, -1)


@pytest.mark.parametrize("seed", range(20))
def test_pieces_are_joined_for_all_replies(
    parse_all: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """However the network cuts a stream of replies, all come out as soon as they are whole."""
    monkeypatch.setattr(resp, "parse_all", parse_all)
    chance = random.Random(seed)
    stream = b"".join(_reply(chance) for _ in range(20))
    ours, theirs = resp.Replies(), hiredis.Reader()
    while stream:
        size = chance.randint(1, 60)
        theirs.feed(stream[:size])
        for found in ours.read(stream[:size]):
            assert _same(found, cast("object", theirs.gets()))
        stream = stream[size:]
        assert theirs.gets() is False
    assert ours.missing == 0


def test_nonsense_follows_whole_replies(
    parse_all: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replies before it still count."""
    monkeypatch.setattr(resp, "parse_all", parse_all)
    replies = resp.Replies()
    assert replies.read(b":1\r\n:") == [1]
    assert replies.read(b"2\r\nnonsense\r\n") == [2]
    assert replies.missing == -1
