"""Leases across languages: they are renewed while the holder lives, and end when it does not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.interop.agent import REFUSALS, AgentError
from tests.interop.conftest import OLD, OWN_PAIRS, PAIRS
from tests.interop.pair import PROMPT, SHORT

if TYPE_CHECKING:
    from tests.interop.pair import Pair

KINDS = [
    *("lock", "non_reentrant", "fair", "fenced", "spin", "read", "write", "multi", "red", "group"),
]


def _target(pair: Pair, kind: str) -> dict[str, Any]:
    name = f"{pair.name}:of-{kind}"
    if kind in ("multi", "red"):
        members = [
            {"client": "short", "kind": "lock", "name": f"{name}:{number}"} for number in range(3)
        ]
        return {"members": members}
    return {"name": name, "values": ["a", "b"]} if kind == "group" else {"name": name}


@pytest.mark.parametrize(
    ("pair", "kinds"),
    [*((pair, KINDS) for pair in PAIRS), *((pair, ["lock", "fair", "write"]) for pair in OLD)],
    indirect=["pair"],
)
def test_both_languages_renew_past_three_leases(pair: Pair, kinds: list[str]) -> None:
    """Renewed holds of every kind outlive three leases, and keep the other language out."""
    held = {}
    for kind in kinds:
        held[kind] = pair.of_first(kind, kind, client="short", **_target(pair, kind))
        assert held[kind].ask("acquire", timeout=PROMPT), kind
    time.sleep(3.5 * SHORT)  # three leases: both languages renew
    for kind, holder in held.items():
        rival_kind = "write" if kind == "read" else kind
        rival = pair.of_second(rival_kind, client="short", **_target(pair, kind))
        assert not rival.ask("acquire", timeout=0), kind
        holder.ask("release")
        assert rival.ask("acquire", timeout=PROMPT), kind
        rival.ask("release")


def test_an_expired_lock_goes_to_the_other_language(pair: Pair) -> None:
    """The waiter enters when the lease ends, and not before, though no message is sent."""
    lease, waiting = 1.5, {}
    for kind in ("lock", "non_reentrant", "fair", "fenced", "spin", "write"):
        holder, waiter = pair.at(kind, kind)
        held = holder.start("acquire", lease=lease).result(PROMPT)
        waiting[kind] = (holder, waiter, held, waiter.start("acquire", timeout=30))
    for kind, (holder, waiter, held, entering) in waiting.items():
        acquired = entering.result(lease + PROMPT)
        assert acquired.value is True, kind
        assert held.started + lease <= acquired.ended + 0.1, kind
        with pytest.raises(AgentError) as refusal:
            holder.ask("release")
        assert refusal.value.kind in (*REFUSALS, "HoldLostError"), kind
        assert waiter.ask("query")["depth"] == 1, kind
        waiter.ask("release")


@OWN_PAIRS
def test_a_killed_holder_is_followed_within_a_lease(own_pair: Pair) -> None:
    """Kill -9 of one language's process frees everything it held, when the leases end."""
    kinds = ["lock", "fair", "fenced", "read", "write"]
    waiting = []
    for kind in kinds:
        held = own_pair.of_first(kind, kind, name=f"{own_pair.name}:of-{kind}")
        assert held.ask("acquire")
        rival = "write" if kind == "read" else kind
        waiter = own_pair.of_second(rival, kind, name=f"{own_pair.name}:of-{kind}")
        waiting.append(waiter.wait(timeout=30))
    killed = time.monotonic()
    own_pair.first.kill()
    for kind, entering in zip(kinds, waiting, strict=True):
        acquired = entering.result(SHORT + PROMPT)
        assert acquired.value is True, kind
        assert acquired.ended < killed + SHORT + PROMPT, kind


@OWN_PAIRS
def test_a_killed_waiter_is_in_nobodys_way(own_pair: Pair) -> None:
    """After kill -9 of a waiting process the lock can be acquired at once.

    In a fair queue, it can be acquired when the waiter's place ends.
    """
    waited = {}
    for kind in ("lock", "fair", "write"):
        waited[kind] = own_pair.of_second(kind, kind)
        assert waited[kind].ask("acquire")
        own_pair.of_first(kind, kind).wait()
    own_pair.first.kill()
    for kind, holder in waited.items():
        holder.ask("release")
        again = holder.start("acquire", timeout=30).result(3 * SHORT + 2 * PROMPT)
        assert again.value is True, kind


@OWN_PAIRS
def test_a_frozen_holder_loses_its_lock_and_is_told(own_pair: Pair) -> None:
    """A holder frozen past its lease is followed by the other language; its release fails."""
    holder, waiter = own_pair.at("lock")
    assert holder.ask("acquire")
    waiting = waiter.wait(timeout=30)
    own_pair.first.pause()
    try:
        assert waiting.result(SHORT + PROMPT).value is True
    finally:
        own_pair.first.resume()
    with pytest.raises(AgentError) as refusal:
        holder.ask("release")
    assert refusal.value.kind in (*REFUSALS, "HoldLostError")
    assert waiter.ask("query")["depth"] == 1
