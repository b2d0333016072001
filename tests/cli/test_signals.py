"""How interlock handles signals.

Before the job they are raised. Afterwards they are queued for the job. Ignored signals stay
ignored.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from interlock.cli.job import FORWARDED, Interrupted, Signals, pressed_key

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def signals() -> Iterator[Signals]:
    """Handle this process' signals."""
    with Signals() as handled:
        yield handled


@pytest.mark.parametrize("signum", FORWARDED)
def test_a_signal_before_the_job_raises_once(signals: Signals, signum: int) -> None:
    """The first signal ends what goes on; a second does not cut the clean-up short."""
    with pytest.raises(Interrupted) as caught:
        signal.raise_signal(signum)
    assert caught.value.signum == signum
    assert isinstance(caught.value, KeyboardInterrupt)
    try:
        signal.raise_signal(signum)
    except Interrupted:  # left to pytest, it would end the whole session
        pytest.fail("the second signal raised too")


def test_queued_signals_are_returned_and_nothing_else(signals: Signals) -> None:
    """A wait returns the signals for the job, but not the end of a child or a wake-up."""
    signals.queue_signals()
    signal.raise_signal(signal.SIGCHLD)
    signals.wake()
    assert signals.wait(30) == []
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGHUP)
    assert signals.wait(30) == [signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_wait_ends_without_news(signals: Signals, timeout: float) -> None:
    """A wait with a bound returns when nothing happens, even with a bound of 0."""
    assert signals.wait(timeout) == []


def test_no_wait_is_longer_than_poll_can_count(signals: Signals) -> None:
    """A time-out of 30 days, in milliseconds, is no int; the wait ends earlier, without news."""
    signals.wake()
    assert signals.wait(30 * 86400.0) == []
    assert signals._reader.gettimeout() == 86400.0


def test_signals_that_the_caller_blocks_are_heard() -> None:
    """A blocked signal would wake nobody."""
    blocked = {signal.SIGCHLD, *FORWARDED}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        with Signals():
            assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & blocked
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_another_thread_can_end_an_unbounded_wait(signals: Signals) -> None:
    """The callback of a lost hold, which runs in the renewal's thread, wakes the main one."""
    thread = threading.Timer(0.05, signals.wake)
    thread.start()
    assert signals.wait(None) == []
    thread.join()


def test_no_number_of_wake_ups_blocks_or_fails(signals: Signals) -> None:
    """A full buffer is as good as a byte in it."""
    for _ in range(100_000):
        signals.wake()
    assert signals.wait(30) == []


def test_an_ignored_signal_stays_ignored() -> None:
    """Under nohup, HUP neither raises nor is passed on."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            signal.raise_signal(signal.SIGHUP)
            signals.queue_signals()
            assert signals.wait(0) == []
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_everything_is_as_before_afterwards() -> None:
    """Handlers and the wake-up descriptor are put back."""
    watched = (*FORWARDED, signal.SIGCHLD)
    before = [signal.getsignal(signum) for signum in watched]
    with Signals():
        assert signal.getsignal(signal.SIGTERM) is not before[1]
    assert [signal.getsignal(signum) for signum in watched] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_term_and_hup_are_never_key_presses() -> None:
    """No key sends TERM or HUP, so they are passed on wherever we run."""
    assert not pressed_key(signal.SIGTERM)
    assert not pressed_key(signal.SIGHUP)
