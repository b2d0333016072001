"""A server that is not the intended one: callers get errors of ours, in time."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.faces.face_calls import call, told
from tests.support.listening import listening

from interlock import InterlockError, ServerUnavailableError
from interlock._links import resp

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from tests.objects.awaited import Face

PATIENCE = 8.0
"""Seconds for a call that has half a second, on a machine that stalls."""


def answering(reply: bytes) -> Callable[[socket.socket], None]:
    def serve(sock: socket.socket) -> None:
        while sock.recv(65536):
            sock.sendall(reply)

    return serve


async def ask(face: Face, port: int) -> object:
    """Return what an acquire comes to: a bool, or an error of ours."""
    client = face.module.connect(
        f"redis://127.0.0.1:{port}", command_timeout=0.5, outage_timeout=0.2, pubsub="off"
    )
    began = time.monotonic()
    outcome: object
    try:
        outcome = await call(face, client.lock("name").acquire, timeout=0.3)
    except InterlockError as error:
        outcome = error
    assert time.monotonic() - began < PATIENCE
    with contextlib.suppress(InterlockError):
        await told(client.close())
    return outcome


MALFORMED = {
    "nonsense": b"220 mail.example ESMTP\r\n",
    "zeros": b"\x00" * 64,
    "text": b"$2\r\nhi\r\n",
    "list": b"*2\r\n:1\r\n:2\r\n",
    "nested": b"*1\r\n" * 12 + b":1\r\n",
    "negative": b"$-7\r\n",
    "short": b"*3\r\n:1\r\n",
    "moved": b"-MOVED x\r\n",
    "port": b"-MOVED 1 h:99999999\r\n",
    "many": b":1\r\n" * 50,
    "error": b"-" + b"E" * 5000 + b"\r\n",
}


@pytest.mark.promise("hostile")
@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_replies(face: Face, name: str) -> None:
    """A malformed reply, or one of another shape, ends in an error of ours or in a refusal."""
    with listening(answering(MALFORMED[name])) as port:
        outcome = await ask(face, port)
    assert outcome is False or isinstance(outcome, InterlockError)


async def test_an_endless_reply_ends(face: Face) -> None:
    """A reply that comes byte by byte does not hold a call beyond its time."""

    def trickle(sock: socket.socket) -> None:
        sock.recv(65536)
        sock.sendall(b"$1000000\r\n")
        while True:
            sock.sendall(b"x")
            time.sleep(0.02)  # a byte at a time

    with listening(trickle) as port:
        assert isinstance(await ask(face, port), ServerUnavailableError)


@pytest.mark.parametrize("begin", [b"$900000000\r\n", b"+"])
async def test_a_huge_reply_is_cut_off(
    face: Face, monkeypatch: pytest.MonkeyPatch, begin: bytes
) -> None:
    """No more of one reply is kept than the limit allows."""
    monkeypatch.setattr(resp, "LONGEST_REPLY", 1 << 20)
    sent = [0]

    def pour(sock: socket.socket) -> None:
        sock.recv(65536)
        sock.sendall(begin)
        while True:
            sock.sendall(b"x" * 65536)
            sent[0] += 65536

    with listening(pour) as port:
        outcome = await ask(face, port)
    assert isinstance(outcome, ServerUnavailableError)
    assert sent[0] < 200 << 20


async def test_a_plain_client_follows_nobody(face: Face) -> None:
    """A client of a plain URL that is redirected raises, and connects nowhere else."""
    visitors: list[Any] = []
    with (
        listening(visitors.append) as trap,
        listening(answering(b"-MOVED 1 127.0.0.1:%d\r\n" % trap)) as port,
    ):
        outcome = await ask(face, port)
    assert isinstance(outcome, ServerUnavailableError)
    assert "redis+cluster://" in str(outcome)
    assert visitors == []


async def test_tls_is_not_lowered(face: Face) -> None:
    """A client of ``rediss://`` says nothing in plain text to a server without TLS."""
    heard: list[bytes] = []

    def serve(sock: socket.socket) -> None:
        heard.append(sock.recv(65536))
        sock.sendall(b"+OK\r\n")

    with listening(serve) as port:
        url = f"rediss://alice:hunter2@127.0.0.1:{port}"
        client = face.module.connect(url, command_timeout=1.0)
        with pytest.raises(ServerUnavailableError, match="no TLS connection"):
            await call(face, client.lock("name").acquire)
        await told(client.close())
    assert heard
    assert all(data.startswith(b"\x16\x03") and b"hunter2" not in data for data in heard)
