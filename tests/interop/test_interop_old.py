"""The core of the matrix with Redisson 3.27.2.

It is older than the batched watchdog and the newer fair lock.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.interop.agent import REFUSALS, AgentError
from tests.interop.pair import PROMPT, SHORT, counts_wake, settle

if TYPE_CHECKING:
    from tests.interop.pair import Pair


@pytest.mark.parametrize("kind", ["lock", "fair", "fenced", "write"])
def test_a_release_wakes_the_waiter_of_the_other_language(old_pair: Pair, kind: str) -> None:
    """A waiter acquires within moments of the release; lease and poll cap are far off."""
    holder, waiter = old_pair.at(kind)
    assert holder.ask("acquire", lease=60)
    assert holder.ask("acquire", lease=60)
    waiting = waiter.wait(timeout=30)
    with pytest.raises(AgentError) as refusal:
        type(waiter)(waiter.agent, "other", waiter.target).ask("release")
    assert refusal.value.kind in REFUSALS
    holder.ask("release")
    settle()
    assert not waiting.done()
    holder.ask("release")
    assert waiting.result(PROMPT).value is True
    waiter.ask("release")


def test_readers_share_and_a_writer_waits(old_pair: Pair) -> None:
    """Readers of both enter together, and the last one's release wakes the writer."""
    here, there = old_pair.at("read")
    assert here.ask("acquire", timeout=0, lease=60)
    assert there.ask("acquire", timeout=0, lease=60)
    writing = old_pair.of_second("write", "writer").wait(timeout=30)
    there.ask("release")
    here.ask("release")
    assert writing.result(PROMPT).value is True
    old_pair.of_second("write", "writer").ask("release")


def test_both_renew(old_pair: Pair) -> None:
    """Holds outlive three leases on either side."""
    held = [old_pair.of_first(kind, kind, client="short") for kind in ("lock", "fair", "write")]
    for holder in held:
        assert holder.ask("acquire")
    time.sleep(3.5 * SHORT)  # three leases: both languages renew
    for kind, holder in zip(("lock", "fair", "write"), held, strict=True):
        assert not old_pair.of_second(kind).ask("acquire", timeout=0), kind
        holder.ask("release")


def test_permits_and_counts_wake_the_other_language(old_pair: Pair) -> None:
    """A semaphore, a leased one and a latch in one language wake waiters of the other."""
    counts_wake(old_pair)
