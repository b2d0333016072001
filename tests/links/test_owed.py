"""Replies that nobody waits for are dropped before those to later commands."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from interlock._links.owed import MOST, OwedReplies
from interlock._links.resp import Replies

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give the server's end of a connection, and the client's."""
    server, client = socket.socketpair()
    with server, client:
        yield server, client


def test_they_are_dropped_as_they_come(ends: tuple[socket.socket, socket.socket]) -> None:
    """The next read need not wait once they are dropped and a later reply is there."""
    server, client = ends
    received = Replies()
    owed = OwedReplies(client, received)
    assert owed.caught_up()
    assert owed.add(2)
    server.sendall(b":1\r\n")
    assert not owed.caught_up()
    assert owed.count == 1
    server.sendall(b":2\r\n:3\r\n")
    assert owed.caught_up()
    assert (owed.count, list(received.ready)) == (0, [3])


def test_a_later_reply_is_waited_for(ends: tuple[socket.socket, socket.socket]) -> None:
    """If nothing has come behind them, the next look tells."""
    server, client = ends
    received = Replies()
    owed = OwedReplies(client, received)
    assert owed.add(1)
    server.sendall(b":1\r\n")
    assert not owed.caught_up()
    assert (owed.count, list(received.ready)) == (0, [])
    assert owed.caught_up()


def test_a_connection_that_has_ended(ends: tuple[socket.socket, socket.socket]) -> None:
    """The next read tells of the end."""
    server, client = ends
    owed = OwedReplies(client, Replies())
    assert owed.add(1)
    server.close()
    assert owed.caught_up()


def test_too_many(ends: tuple[socket.socket, socket.socket]) -> None:
    """From some number on the server does not seem to answer."""
    owed = OwedReplies(ends[1], Replies())
    assert owed.add(MOST)
    assert not owed.add(1)
