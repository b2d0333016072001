"""Names in a cluster: all keys of an object in one slot, or a refusal when the object is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from redis.crc import key_slot

import interlock
from interlock import ConfigError
from interlock._core.model import names
from interlock._core.model import names as second
from interlock._core.model.names import condition_key

if TYPE_CHECKING:
    from collections.abc import Callable

SCATTERED = ["a}b", "}", "a{", "{}a", "a{}b{c}", "a{b"]
KEPT = ["a", "{a}", "{a}b", "a{b}c", "a{b}{c}", "{a}{", "ä{ö}ü", "a b:c/d"]
DERIVED: list[Callable[[str], str]] = [
    names.lock_channel,
    names.fair_queue,
    names.fair_timeouts,
    names.fence_token,
    names.read_write_channel,
    names.read_entries,
    names.semaphore_channel,
    names.permit_leases,
    names.latch_ending,
    names.event_key,
    names.event_channel,
    second.barrier_key,
    second.barrier_ended,
    second.barrier_wakes,
    lambda name: condition_key(name, "news"),
    names.election_key,
    names.election_leader,
    names.election_news,
    lambda name: names.own_request(name, "00"),
    lambda name: names.request_latch(name, "00"),
]
OBJECTS = [
    "lock",
    "fair_lock",
    "fenced_lock",
    "spin_lock",
    "read_write_lock",
    "semaphore",
    "leased_semaphore",
    "count_down_latch",
    "event",
    "condition",
    "election",
]


def _slots(name: str) -> set[int]:
    slot: Any = key_slot
    return {slot(derive(name).encode()) for derive in (str, *DERIVED)}


@pytest.mark.parametrize("name", KEPT)
def test_names_that_keep_together(name: str) -> None:
    """A name that is accepted has all its keys and channels in one slot."""
    names.check_one_slot(name)
    assert len(_slots(name)) == 1


@pytest.mark.parametrize("name", SCATTERED)
def test_names_that_scatter(name: str) -> None:
    """What is refused would have them in several."""
    assert len(_slots(name)) > 1
    with pytest.raises(ConfigError, match="hash slots"):
        names.check_one_slot(name)


@pytest.mark.parametrize("kind", OBJECTS)
def test_every_object_refuses_them(kind: str) -> None:
    """Each object of a cluster client refuses such a name at creation, without a round trip.

    A client of one server accepts it.
    """
    with (
        interlock.connect("redis+cluster://localhost:1") as client,
        pytest.raises(ConfigError, match="a}b"),
    ):
        getattr(client, kind)("a}b")
    with interlock.connect("redis://localhost:1") as client:
        getattr(client, kind)("a}b")


def test_the_channel_of_a_latch() -> None:
    """A latch whose name has braces is refused unless its channel is plain.

    Redisson puts braces around every latch's name. With other braces inside, the sharded channel is
    in another slot.
    """
    for pubsub in ("auto", "sharded"):
        with (
            interlock.connect("redis+cluster://localhost:1", pubsub=pubsub) as client,
            pytest.raises(ConfigError, match="plain"),
        ):
            client.count_down_latch("{a}b")
    with interlock.connect("redis+cluster://localhost:1", pubsub="plain") as client:
        client.count_down_latch("{a}b")
