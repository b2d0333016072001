"""Locks shared by Java and Python: each of them holds, and the other one waits, is woken and acquires."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interop.agent import REFUSALS, AgentError
from interop.pair import PROMPT

if TYPE_CHECKING:
    from interop.pair import Pair

LOCKS = ["lock", "non_reentrant", "fair", "fenced", "write"]
"""What one owner holds and whose release sends a message."""


@pytest.mark.parametrize("kind", LOCKS)
def test_a_release_wakes_the_waiter_of_the_other_language(pair: Pair, kind: str) -> None:
    """A waiter acquires within moments of the release, which only a message explains: the lease and the poll cap are far off."""
    holder, waiter = pair.at(kind)
    assert holder.ask("acquire", lease=60)
    waiting = waiter.wait(timeout=30)
    released = holder.start("release").result(PROMPT)
    acquired = waiting.result(PROMPT)
    assert acquired.value is True
    assert released.started < acquired.ended < released.ended + PROMPT
    assert not holder.ask("acquire", timeout=0)
    waiter.ask("release")
    assert not holder.ask("locked")


@pytest.mark.parametrize("kind", [*LOCKS, "spin", "read"])
def test_who_does_not_hold_cannot_release(pair: Pair, kind: str) -> None:
    """A release by the other language is refused and changes nothing."""
    holder, other = pair.at(kind)
    assert holder.ask("acquire", lease=60)
    with pytest.raises(AgentError) as refusal:
        other.ask("release")
    assert refusal.value.kind in REFUSALS
    assert holder.ask("query")["depth"] == 1
    holder.ask("release")


@pytest.mark.parametrize("kind", ["lock", "fair", "fenced", "write", "read", "spin"])
def test_what_was_entered_twice_is_left_twice(pair: Pair, kind: str) -> None:
    """The other language sees a lock that was entered twice as locked until it is released twice."""
    holder, other = pair.at(kind)
    rival, _ = pair.at("write" if kind == "read" else kind)
    rival = type(rival)(other.agent, other.thread, rival.target)
    assert holder.ask("acquire", lease=60)
    assert holder.ask("acquire", lease=60)
    assert holder.ask("query")["depth"] == 2
    assert other.ask("query")["depth"] == 0
    holder.ask("release")
    assert not rival.ask("acquire", timeout=0)
    assert other.ask("locked")
    holder.ask("release")
    assert rival.ask("acquire", timeout=0)
    rival.ask("release")
