"""One waiter's place in a queue."""

from __future__ import annotations

from interlock._core.queue.waiter import Waiter


def test_only_the_front_asks_and_once_for_each_wake() -> None:
    """A wake makes the waiter in front ask the server once; the others do not ask."""
    wakes: list[str] = []
    waiter = Waiter("channel", lambda: wakes.append("woken"))
    waiter.wake()
    assert not waiter.take()
    waiter.front = True
    waiter.wake()

    assert waiter.take()
    assert not waiter.take()
    assert wakes == ["woken", "woken"]


def test_a_wake_may_be_without_a_question() -> None:
    """A waiter can be woken to look around without asking the server."""
    waiter = Waiter("channel", lambda: None)
    waiter.front = True
    waiter.wake(ask=False)
    assert not waiter.take()
