"""Simulated time."""

from __future__ import annotations

from random import Random

from tests.support.simulator.timeline import TRACE_LENGTH, Clock, Timeline


def test_things_happen_in_the_order_of_their_time() -> None:
    """What is due first happens first, and what is due at once in the order it was asked for."""
    timeline, happened = Timeline(Random(1)), []
    for when, name in ((2.0, "c"), (1.0, "a"), (1.0, "b")):
        timeline.at(when, lambda name=name: happened.append((timeline.now, name)))
    for _ in range(3):
        timeline.step()

    assert happened == [(1.0, "a"), (1.0, "b"), (2.0, "c")]
    assert timeline.steps == 3


def test_time_never_goes_back() -> None:
    """What was due in the past happens now."""
    timeline = Timeline(Random(1))
    timeline.after(5.0, lambda: timeline.at(1.0, lambda: None))
    timeline.step()
    timeline.step()

    assert timeline.now == 5.0


def test_only_the_latest_events_are_kept() -> None:
    """The trace has a bounded length."""
    timeline = Timeline(Random(1))
    for number in range(TRACE_LENGTH + 1):
        timeline.note("a", str(number))

    assert len(timeline.trace) == TRACE_LENGTH
    assert timeline.trace[0].what == "1"


def test_a_timer_finds_that_its_time_has_come() -> None:
    """A clock that is wrong and fast shows the wanted time when its timer goes off."""
    timeline = Timeline(Random(1))
    clock = Clock(timeline, offset=1000.0, drift=0.01)
    wanted = clock() + 10.0
    timeline.at(clock.when(wanted), lambda: None)
    timeline.step()

    assert timeline.now < 10.0
    assert wanted <= clock() < wanted + 0.001
