"""The epoch of fencing tokens: it is that of the primary that connections lead to."""

from __future__ import annotations

import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from tests.support.patience import wait_until

from interlock._links.dialled import Dialled
from interlock._links.endpoint import Endpoint
from interlock._links.sentinel import SentinelEndpoint
from interlock._links.urls import open_url
from interlock.errors import ServerUnavailableError
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from interlock._links.sentinel import Sentinels


def servers_at(url: str) -> SentinelEndpoint:
    servers, _ = open_url(url, Options())
    assert isinstance(servers, SentinelEndpoint)
    return servers


def told(servers: SentinelEndpoint, host: str, epoch: int) -> None:
    """Have the Sentinels name *host* as the primary of *epoch* from now on."""
    nodes: Any = servers.sentinels.nodes
    for node in nodes:
        node.connect = lambda _seconds: Mock()
        node.ask = lambda *_: state(host, epoch, "master")


def state(host: str, epoch: int, flags: str) -> list[bytes]:
    words = {"flags": flags, "ip": host, "port": "1", "num-other-sentinels": "2"}
    words["config-epoch"] = str(epoch)
    return [word.encode() for pair in words.items() for word in pair]


def test_a_sentinel_that_performs_a_failover_is_not_believed() -> None:
    """The former address is not taken for the primary of the epoch that the failover gives."""
    sentinels = servers_at("redis+sentinel://sentinel/mymaster").sentinels
    with pytest.raises(ServerUnavailableError, match="a failover is under way"):
        answered(sentinels, state("former", 9, "master,failover_in_progress"))
    assert sentinels.epoch == 0


def test_a_sentinel_that_lags_does_not_set_the_epoch_back() -> None:
    """An earlier epoch counts only if most Sentinels tell it."""
    sentinels = servers_at("redis+sentinel://one,two,three/mymaster").sentinels
    first, second = ("first", 1), ("second", 1)
    assert named(sentinels, ("first", 1)) == first
    assert named(sentinels, ("second", 3)) == second
    assert named(sentinels, ("second", 2), ("second", 3)) == second
    assert sentinels.epoch == 3
    sentinels.announced(first)
    assert named(sentinels, ("first", 1), ("second", 3), ("first", 4)) == first
    assert sentinels.epoch == 4
    assert named(sentinels, ("first", 2), ("first", 2)) == first
    assert sentinels.epoch == 2


def test_an_answer_that_another_thread_has_outrun_does_not_set_the_epoch_back() -> None:
    """Wherever it pauses, the newer answer of another thread counts from then on."""
    at, reached = 0, True
    while reached:
        at += 1
        sentinels = servers_at("redis+sentinel://one,two,three/mymaster").sentinels
        assert named(sentinels, ("first", 5)) == ("first", 1)
        reached = outrun(sentinels, at)
        assert sentinels.epoch == 6, f"after {at}"
        with pytest.raises(ServerUnavailableError, match="a failover is under way"):
            _ = sentinels.look_up()
    assert at > 30


def outrun(sentinels: Sentinels, at: int) -> bool:
    """Be told the present epoch by one Sentinel; another thread is told the next one meanwhile.

    That is before the opcode *at*, or afterwards. Return whether there were so many opcodes.
    """
    lags = threading.current_thread()

    def ask(*_: object) -> list[bytes]:
        here = threading.current_thread() is lags
        return state("first", 5, "master") if here else state("second", 6, "master")

    nodes: Any = sentinels.nodes
    for node in nodes:
        node.connect = lambda _seconds: Mock()
        node.ask = Mock(side_effect=ServerUnavailableError("it is down"))
    nodes[0].ask = ask
    other = threading.Thread(target=sentinels.look_up)
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.endswith("/sentinel.py"):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen += 1
            if seen == at:
                other.start()
                other.join()
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        with suppress(ServerUnavailableError):  # the other one was told first
            _ = sentinels.look_up()
    finally:
        sys.settrace(former)
    if seen < at:
        other.start()
        other.join()
    return seen >= at


def named(sentinels: Sentinels, *answers: tuple[str, int]) -> tuple[str, int]:
    """Return the primary that is believed after all of *answers*."""
    return answered(sentinels, *[state(*each, "master") for each in answers])


def answered(sentinels: Sentinels, *answers: list[bytes]) -> tuple[str, int]:
    """Return the primary that is believed only after all of *answers*, one of each Sentinel."""
    left = list(answers)
    nodes: Any = sentinels.nodes
    for node in nodes:
        node.connect = lambda _seconds: Mock()
        node.ask = lambda *_: left.pop(0)
    address, _ = sentinels.look_up()
    assert left == []
    return address


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """Have every data node log in and call itself a primary; give its ends of the connections."""
    ends = list[socket.socket]()

    def connect(node: Endpoint, _timeout: float, *, for_loop: bool) -> Dialled:
        connection = Dialled()
        connection.sock, end = socket.socketpair()
        ends.append(end)
        node.opening(connection)
        return connection

    monkeypatch.setattr(Endpoint, "connect", connect)
    monkeypatch.setattr(Endpoint, "ask", lambda *_: [b"master"])
    yield ends
    for end in ends:
        end.close()


def test_a_new_epoch_begins_when_the_former_primary_is_left(peers: list[socket.socket]) -> None:
    """While connections to the former primary are open, it draws no tokens of the next epoch."""
    servers = servers_at("redis+sentinel://sentinel/mymaster")
    told(servers, "first", 8)
    assert servers.epoch() == 0
    former = servers.connect(1.0)
    assert servers.epoch() == 8
    told(servers, "second", 9)
    _ = servers.sentinels.look_up()
    assert servers.epoch() == 8
    seen: list[tuple[int, bytes]] = []
    servers.on_change = lambda: seen.append((servers.epoch(), peers[0].recv(1)))
    _ = servers.connect(1.0)
    assert (seen, servers.epoch()) == ([(8, b"")], 9), "it was cut before the epoch began"
    former.disconnect()


def test_a_connection_that_is_cut_while_it_arrives_leads_nowhere(
    peers: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A primary that is announced just then stays the primary, and the connection is cut."""
    servers = servers_at("redis+sentinel://sentinel/mymaster")
    first, second = ("first", 1), ("second", 1)
    told(servers, "first", 8)
    servers.moved(first)
    heard: list[bytes] = []

    def ask(*_: object) -> list[bytes]:
        servers.moved(second)
        heard.append(peers[0].recv(1))
        return [b"master"]

    monkeypatch.setattr(Endpoint, "ask", ask)
    with pytest.raises(ServerUnavailableError, match="is not the primary") as caught:
        _ = servers.connect(1.0)
    assert caught.value.transient
    assert (heard, servers._primary, servers.epoch()) == ([b""], second, 0)


def test_one_answer_serves_all_who_connect_meanwhile(
    peers: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that connect while the Sentinels are asked do not ask them again."""
    servers = servers_at("redis+sentinel://sentinel/mymaster")
    asked, waiting, answer = list[None](), list[None](), threading.Event()
    begin = servers._asking.begin

    def ask(*_: object) -> list[bytes]:
        asked.append(None)
        assert answer.wait(30)
        return state("first", 1, "master")

    def begun(*question: Any) -> Any:
        future = begin(*question)
        waiting.append(None)
        return future

    nodes: Any = servers.sentinels.nodes
    nodes[0].connect, nodes[0].ask = lambda _seconds: Mock(), ask
    monkeypatch.setattr(servers._asking, "begin", begun)
    with pytest.raises(ServerUnavailableError, match=r"no Sentinel of .* answered in") as caught:
        _ = servers.connect(0.01)
    assert caught.value.transient
    with ThreadPoolExecutor(8) as pool:
        connecting = [pool.submit(servers.connect, 30.0) for _ in range(8)]
        wait_until(lambda: len(waiting) == 9, 10, "all of them wait")
        answer.set()
        for each in connecting:
            each.result().disconnect()
    assert len(asked) == 1
