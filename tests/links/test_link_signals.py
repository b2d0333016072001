"""Signals that come again and again while the client waits."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import interlock
from interlock._links import exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from interlock.testing.servers import RedisServer


@contextmanager
def alarms(interval: float, handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Deliver SIGALRM to this process every *interval* seconds."""
    former = signal.signal(signal.SIGALRM, handler)
    former_timer = signal.setitimer(signal.ITIMER_REAL, interval, interval)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *former_timer)
        signal.signal(signal.SIGALRM, former)


@pytest.mark.timeout(60, method="thread")  # the other method is an alarm
@pytest.mark.parametrize("part", ["C", "Python"])
def test_periodic_signals_do_not_prolong_a_timeout(
    fresh_server: RedisServer, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """A timeout ends in time although a signal interrupts every wait for the stopped server."""
    if part == "Python":
        monkeypatch.setattr(exchange, "_in_c", None)
    with interlock.connect(fresh_server.url(), command_timeout=3) as client:
        lock = client.lock("name")
        assert lock.acquire()
        lock.release()
        fresh_server.pause()
        try:
            began = time.monotonic()
            with alarms(0.1, lambda _, __: None), pytest.raises(interlock.ServerUnavailableError):
                lock.acquire(timeout=0.5)
            assert time.monotonic() - began < 1.5
        finally:
            fresh_server.resume()
