"""Locks shared by Java and Python: one of them holds; the other waits, is woken and acquires."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop.agent import REFUSALS, AgentError
from tests.interop.conftest import each_pair
from tests.interop.pair import PROMPT, Pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.interop.agent import Agent

LOCKS = ["lock", "non_reentrant", "fair", "fenced", "write"]
"""What one owner holds and whose release sends a message."""


@pytest.mark.promise("redisson")
@each_pair(*LOCKS, "group")
def test_a_release_wakes_the_waiter_of_the_other_language(pair: Pair, kind: str) -> None:
    """A waiter acquires within moments of the release.

    Only a message explains that: the lease and the poll cap are far off.
    """
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


@each_pair(*LOCKS, "spin", "read")
def test_who_does_not_hold_cannot_release(pair: Pair, kind: str) -> None:
    """A release by the other language is refused and changes nothing."""
    holder, other = pair.at(kind)
    assert holder.ask("acquire", lease=60)
    with pytest.raises(AgentError) as refusal:
        other.ask("release")
    assert refusal.value.kind in REFUSALS
    assert holder.ask("query")["depth"] == 1
    holder.ask("release")


@each_pair("lock", "fair", "fenced", "write", "read", "spin")
def test_what_was_entered_twice_is_left_twice(pair: Pair, kind: str) -> None:
    """The other language sees a lock that was entered twice as locked until two releases."""
    holder, other = pair.at(kind)
    rival = pair.of_second("write" if kind == "read" else kind)
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


@pytest.mark.parametrize("kind", ["lock", "fair", "fenced", "write"])
def test_a_force_release_is_seen_by_the_holder_and_wakes_who_waits(pair: Pair, kind: str) -> None:
    """The other language frees the lock, its next waiter is woken, and its holder is refused."""
    holder, other = pair.at(kind)
    waiter = pair.of_second(kind, "t2")
    assert holder.ask("acquire", lease=60)
    waiting = waiter.wait(timeout=30)
    assert other.ask("force_release") is True
    assert waiting.result(PROMPT).value is True
    with pytest.raises(AgentError) as refusal:
        holder.ask("release")
    assert refusal.value.kind in (*REFUSALS, "HoldLostError")
    assert waiter.ask("query")["depth"] == 1
    waiter.ask("release")
    assert other.ask("force_release") is False


@pytest.mark.parametrize("face", ["sync", "asyncio"])
@pytest.mark.parametrize("kind", ["lock", "fair", "fenced", "write", "read", "spin"])
def test_a_force_release_by_java_is_a_lost_hold_in_python(
    need_java: None, shared_agents: Callable[[str], Agent], face: str, kind: str
) -> None:
    """A hold that Java freed is reported lost, and its release raises."""
    pair = Pair(shared_agents(face), shared_agents("java"), f"forced:{face}:{kind}")
    holder, other = pair.at(kind, client="short")
    assert holder.ask("acquire")
    holder.ask("watch")
    assert other.ask("force_release") is True
    assert holder.ask("lost", timeout=PROMPT) is True
    with pytest.raises(AgentError) as refusal:
        holder.ask("release")
    assert refusal.value.kind == "HoldLostError"


def test_fencing_tokens_grow_across_languages(pair: Pair) -> None:
    """Each acquire gets a larger token than all before it, in whatever language."""
    one, other = pair.at("fenced")
    tokens = []
    for party in (one, other, one, other):
        tokens.append(party.ask("acquire_token", timeout=5, lease=30))
        party.ask("release")
    assert tokens == sorted(set(tokens))
    assert tokens[0] > 0


@pytest.mark.parametrize("kind", ["lock", "fenced"])
def test_a_spin_lock_and_a_lock_of_one_name_exclude_each_other(pair: Pair, kind: str) -> None:
    """Neither gets the name while the other has it; the spin lock finds a release by itself."""
    locked = pair.of_first(kind, name=pair.name)
    spinning = pair.of_second("spin", name=pair.name)
    assert locked.ask("acquire", lease=60)
    assert not spinning.ask("acquire", timeout=0)
    waiting = spinning.wait(timeout=30)
    locked.ask("release")
    assert waiting.result(PROMPT).value is True
    assert not locked.ask("acquire", timeout=0)
    spinning.ask("release")
