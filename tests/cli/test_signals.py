"""How interlock handles signals.

Before the job they are raised. Afterwards they are queued for the job. Ignored signals stay
ignored.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from interlock.cli.job import FORWARDED, Interrupted, Signals

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


def test_no_wait_is_longer_than_poll_can_count(signals: Signals) -> None:
    """A time-out of 30 days, in milliseconds, is no int; the wait ends earlier, without news."""
    signals.wake()
    assert signals.wait(30 * 86400.0) == []
    assert signals._reader.gettimeout() == 86400.0


def test_no_number_of_wake_ups_blocks_or_fails(signals: Signals) -> None:
    """A full buffer is as good as a byte in it."""
    for _ in range(100_000):
        signals.wake()
    assert signals.wait(30) == []
