"""Commands whose replies nobody waits for."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from tests.support.servers import wait_until

from interlock._core.model.effects import Eval, Script
from interlock._links import exchange
from interlock._links.connection import UNREAD, UNREAD_FOR, Connection
from interlock._links.endpoint import Endpoint
from interlock._links.pool import Pool
from interlock._links.topology import topology_of

ONE: Script[object] = Script("one", "return 1", lambda reply: reply)


def ignored(_reply: object) -> None:
    """Do nothing with a reply."""


@pytest.mark.needs("gcc")
def test_replies_are_dropped_before_they_are_many(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are dropped when there are some, and after a while.

    To look each time would cost two system calls whenever a contended lock changes hands.
    """
    now = 1000.0
    monkeypatch.setattr("interlock._links.connection.monotonic", lambda: now)
    pool = Pool(topology_of(Endpoint.from_url(redis_url)))
    call = Eval(ONE, ("key",), ())

    def unread() -> int:
        # Answered after the earlier commands.
        assert pool.eval(call, 30) == 1
        assert pool.post(call, ignored)
        assert pool.eval(call, 30) == 1
        [node] = pool._pools.values()
        [connection] = node._posting
        return connection.owed.count

    assert [unread() for _ in range(UNREAD)] == [*range(1, UNREAD + 1)]
    assert max(unread() for _ in range(3 * UNREAD)) <= UNREAD + 1
    now += UNREAD_FOR
    assert unread() <= 2
    pool.close(30)


@pytest.mark.needs("gcc")
def test_each_reply_is_passed_on(redis_url: str) -> None:
    """Each poster hears its own reply. After an error the connection is given up."""
    pool = Pool(topology_of(Endpoint.from_url(redis_url)))
    echo: Script[object] = Script("echo", "return ARGV[1]", lambda reply: reply)
    fails: Script[object] = Script("fails", "return redis.error_reply('no')", lambda reply: reply)
    heard: list[tuple[int, object]] = []
    assert pool.eval(Eval(ONE, ("key",), ()), 30) == 1

    def post(number: int, script: Script[object]) -> None:
        call = Eval(script, ("key",), (str(number),))
        assert pool.post(call, lambda reply: heard.append((number, reply)))

    def hear(count: int) -> None:
        def all_came() -> bool:
            pool.hear()
            return len(heard) == count

        wait_until(all_came, 20, "all replies came")

    for number in range(3):
        post(number, echo)
    hear(3)
    post(3, echo)
    hear(4)
    assert heard == [(number, str(number).encode()) for number in range(4)]
    [node] = pool._pools.values()
    post(4, fails)
    post(5, echo)

    def given_up() -> bool:
        pool.hear()
        return not node._posting

    wait_until(given_up, 20, "the connection is given up")
    assert len(heard) == 4
    pool.hear()
    pool.close(30)


@pytest.mark.needs("gcc")
def test_a_handler_closes_it_while_it_sends(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler that closes the client does not wait for what it has interrupted.

    The connection that is being written to is closed after that.
    """
    pool = Pool(topology_of(Endpoint.from_url(redis_url)))
    call = Eval(ONE, ("key",), ())
    assert pool.eval(call, 30) == 1
    [node] = pool._pools.values()
    post = Connection.post

    def struck(connection: Connection, *posted: Any) -> bool:
        pool.close(0)
        return post(connection, *posted)

    monkeypatch.setattr(Connection, "post", struck)
    sent: list[bool] = []
    posting = threading.Thread(target=lambda: sent.append(pool.post(call, ignored)), daemon=True)
    posting.start()
    posting.join(30)
    assert sent == [True]
    assert not node._open
    assert not pool.post(call, ignored)
    pool.close(30)


def test_a_connection_that_cannot_post_is_kept(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS nothing is posted. To connect anew takes longer than all that a post saves."""
    monkeypatch.setattr(exchange, "_in_c", None)
    pool = Pool(topology_of(Endpoint.from_url(redis_url)))
    call = Eval(ONE, ("key",), ())
    assert pool.eval(call, 30) == 1
    [node] = pool._pools.values()
    [connection] = node._idle
    assert not pool.post(call, ignored)
    assert list(node._idle) == [connection]
    assert pool.eval(call, 30) == 1
    assert list(node._idle) == [connection]
    pool.close(30)


def test_the_only_connection_is_left_to_commands(redis_url: str) -> None:
    """With ``max_connections=1`` nothing is posted: every command would wait in vain."""
    pool = Pool(topology_of(Endpoint.from_url(f"{redis_url}?max_connections=1")))
    call = Eval(ONE, ("key",), ())
    assert pool.eval(call, 30) == 1
    assert not pool.post(call, ignored)
    assert pool.eval(call, 0.1) == 1
    pool.close(30)


@pytest.mark.needs("gcc")
def test_a_ctrl_c_leaves_nothing_for_close_to_wait_for(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that only the traceback keeps is closed already."""
    pool = Pool(topology_of(Endpoint.from_url(redis_url)))
    call = Eval(ONE, ("key",), ())
    assert pool.eval(call, 30) == 1

    def struck(connection: Connection, *_: Any) -> bool:
        raise KeyboardInterrupt(connection)

    monkeypatch.setattr(Connection, "post", struck)
    with pytest.raises(KeyboardInterrupt) as kept:
        _ = pool.post(call, ignored)
    began = time.monotonic()
    pool.close(30)
    assert time.monotonic() - began < 15
    assert isinstance(kept.value.args[0], Connection)
