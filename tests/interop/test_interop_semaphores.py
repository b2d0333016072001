"""Permits and latches shared by Java and Python."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.interop.agent import AgentError
from tests.interop.conftest import OLD_TOO
from tests.interop.pair import PROMPT, settle, take_turns

if TYPE_CHECKING:
    from tests.interop.pair import Pair


@OLD_TOO
def test_permits_released_in_one_language_wake_the_other(pair: Pair) -> None:
    """A waiter for permits goes on when the other language releases enough of them."""
    giver, taker = pair.at("semaphore")
    assert giver.ask("try_set_permits", n=1)
    assert not taker.ask("try_set_permits", n=5)
    assert giver.ask("acquire", n=1, timeout=0)
    waiting = taker.wait(n=2, timeout=30)
    giver.ask("release", n=1)
    settle()
    assert not waiting.done()
    giver.ask("release", n=1)
    assert waiting.result(PROMPT).value is True
    assert giver.ask("available_permits") == 0
    taker.ask("release", n=2)
    assert giver.ask("available_permits") == 2


def test_permits_go_round_between_the_languages(pair: Pair) -> None:
    """Several workers of each language have their turns, and nobody waits for a poll cap."""
    giver, _ = pair.at("semaphore")
    assert giver.ask("try_set_permits", n=1)
    parties = [party for n in range(3) for party in pair.at("semaphore", f"w{n}")]
    take_turns(parties, 3, timeout=30)
    assert giver.ask("available_permits") == 1


def test_permits_added_and_drained_are_seen_by_the_other_language(pair: Pair) -> None:
    """Adding wakes a waiter, draining takes all, `release_if_exists` needs a semaphore."""
    one, other = pair.at("semaphore")
    assert not one.ask("release_if_exists", n=1)
    assert one.ask("try_set_permits", n=0)
    waiting = other.wait(n=3, timeout=30)
    one.ask("add_permits", n=5)
    assert waiting.result(PROMPT).value is True
    assert one.ask("release_if_exists", n=2)
    assert other.ask("drain_permits") == 4
    assert one.ask("drain_permits") == 0


@OLD_TOO
def test_leased_permits_released_in_one_language_wake_the_other(pair: Pair) -> None:
    """A leased permit's release wakes the other language's waiter; both know the same ids."""
    holder, waiter = pair.at("leased_semaphore")
    assert holder.ask("try_set_permits", n=2)
    ids = holder.ask("acquire", n=2, timeout=0, lease=60)
    assert len(ids) == 2
    waiting = waiter.wait(timeout=30, lease=60)
    assert holder.ask("acquired_permits") == 2
    holder.ask("release", ids=ids)
    taken = waiting.result(PROMPT).value
    assert len(taken) == 1
    assert holder.ask("available_permits") == 1
    assert holder.ask("acquired_permits") == 1
    assert holder.ask("permits") == 2
    waiter.ask("release", ids=taken)


def test_a_leased_permit_can_be_kept_and_given_back_by_the_other_language(pair: Pair) -> None:
    """Anyone who knows a permit's id may prolong it, and may release it once."""
    holder, other = pair.at("leased_semaphore")
    assert holder.ask("try_set_permits", n=1)
    ids = holder.ask("acquire", timeout=0, lease=2)
    other.ask("update_lease", ids=ids, lease=60)
    time.sleep(2.2)  # longer than the first lease
    assert not other.ask("acquire", timeout=0, lease=60)
    other.ask("release", ids=ids)
    assert other.ask("available_permits") == 1
    with pytest.raises(AgentError):
        other.ask("release", ids=ids)
    assert other.ask("available_permits") == 1


def test_an_expired_permit_goes_to_the_other_language(pair: Pair) -> None:
    """An expired permit goes to a waiter of the other language, and its release is refused."""
    holder, waiter = pair.at("leased_semaphore")
    assert holder.ask("try_set_permits", n=1)
    held = holder.start("acquire", timeout=0, lease=1.5).result(PROMPT)
    taken = waiter.start("acquire", timeout=30, lease=60).result(1.5 + PROMPT)
    assert len(taken.value) == 1
    assert taken.ended > held.started + 1.4
    with pytest.raises(AgentError):
        holder.ask("release", ids=held.value)
    assert waiter.ask("acquired_permits") == 1
    waiter.ask("release", ids=taken.value)
    assert waiter.ask("available_permits") == 1


def test_the_number_of_leased_permits_is_changed_for_both(pair: Pair) -> None:
    """Setting and adding permits in one language is seen, and waited for, in the other."""
    one, other = pair.at("leased_semaphore")
    assert one.ask("try_set_permits", n=1)
    ids = one.ask("acquire", timeout=0, lease=60)
    waiting = other.wait(timeout=30, lease=60)
    one.ask("add_permits", n=1)
    taken = waiting.result(PROMPT).value
    waiting = other.wait(timeout=30, lease=60)
    one.ask("set_permits", n=3)
    taken += waiting.result(PROMPT).value
    assert one.ask("permits") == 3
    one.ask("release", ids=ids)
    other.ask("release", ids=taken)
    assert one.ask("available_permits") == 3


@OLD_TOO
def test_a_latch_is_counted_down_by_one_and_awaited_by_the_other(pair: Pair) -> None:
    """Who waits goes on when the other language counts to zero; the latch can be set again then."""
    counter, waiter = pair.at("latch")
    assert counter.ask("try_set_count", n=2)
    assert not waiter.ask("try_set_count", n=7)
    waiting = waiter.wait("wait", timeout=30)
    counter.ask("count_down")
    assert waiter.agent.start("other", "count", **waiter.target).result(PROMPT).value == 1
    assert not waiting.done()
    counter.ask("count_down")
    assert waiting.result(PROMPT).value is True
    assert waiter.ask("count") == 0
    assert waiter.ask("wait", timeout=0.5) is True
    assert waiter.ask("try_set_count", n=1)
    counter.ask("delete")
