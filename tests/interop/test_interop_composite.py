"""Locks of several members that are held in both languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.interop.conftest import connect
from tests.interop.pair import PROMPT, Pair, Party
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def others() -> Iterator[list[RedisServer]]:
    with RedisServer() as one, RedisServer() as two:
        yield [one, two]


@pytest.fixture
def red_pair(pair: Pair, others: list[RedisServer]) -> Pair:
    """Give `pair`, connected to three servers."""
    for agent in (pair.first, pair.second):
        for number, server in enumerate(others):
            if f"server{number}" not in agent.client_ids:
                connect(agent, server, f"server{number}")
    return pair


def _members(pair: Pair, *clients: str) -> dict[str, list[dict[str, str]]]:
    return {
        "members": [
            {"client": client, "kind": "lock", "name": f"{pair.name}:{n}"}
            for n, client in enumerate(clients)
        ]
    }


def test_a_multi_lock_waits_for_each_member_of_the_other_language(pair: Pair) -> None:
    """A multi-lock enters when the other language has released the last of its members.

    It then keeps the other language out of all members.
    """
    of = _members(pair, "main", "main", "main")
    holders = [Party(pair.first, f"h{n}", member) for n, member in enumerate(of["members"])]
    joint = pair.of_second("multi", **of)
    for holder in holders[1:]:
        assert holder.ask("acquire", lease=60)
    waiting = joint.wait(timeout=60)
    holders[1].ask("release")
    holders[2].ask("release")
    assert waiting.result(2 * PROMPT).value is True
    assert not any(holder.ask("acquire", timeout=0) for holder in holders)
    joint.ask("release")
    assert all(holder.ask("acquire", timeout=0) for holder in holders)
    for holder in holders:
        holder.ask("release")


def test_a_red_lock_needs_a_majority_that_the_other_language_leaves(red_pair: Pair) -> None:
    """A red lock enters if the other language holds one of its three members, but not two.

    If it does not enter, it gives back what it got.
    """
    of = _members(red_pair, "main", "server0", "server1")
    singles = [Party(red_pair.first, f"m{n}", member) for n, member in enumerate(of["members"])]
    joint = red_pair.of_second("red", **of)
    assert singles[0].ask("acquire", lease=60)
    assert joint.ask("acquire", timeout=PROMPT, lease=60)
    joint.ask("release")
    assert singles[1].ask("acquire", lease=60)
    assert not joint.ask("acquire", timeout=1, lease=60)
    assert singles[2].ask("acquire", timeout=0), "the third was not given back"
    for single in singles:
        single.ask("release")
    assert joint.ask("acquire", timeout=PROMPT, lease=60)
    joint.ask("release")
