"""The catalogue of kinds: complete, and true of what it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.cores import CORES
from tests.support.doings import DOINGS
from tests.support.simulator.rules import rules_of
from tests.support.simulator.workload import KINDS as PLAYED

import interlock
from interlock._core.locks.lock_base import LockBase
from interlock._core.locks.ticket import WITH_TICKETS, lock_of
from interlock._core.locks.transfer import Ticket
from interlock._core.model import names
from interlock.errors import ConfigError
from interlock.inspection.kinds import KINDS, name_in, seen

if TYPE_CHECKING:
    from tests.core.bench import Bench


def test_each_kind_is_called_like_its_factory() -> None:
    """The names of the kinds are those of the client's factories, and none is missing."""
    for kind in KINDS:
        assert callable(getattr(interlock.Client, kind))
    made = {
        name
        for name in dir(interlock.Client)  # without the names of other libraries
        if name.endswith(
            ("lock", "semaphore", "latch", "event", "election", "barrier", "condition", "limited")
        )
        and not name.startswith(("_", "try"))
    }
    assert made == KINDS.keys() == CORES.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_its_name_is_the_classes_own(kind: str) -> None:
    """Errors and events call a kind by its name in words, or by one side of it."""
    words = {"count_down_latch": "latch", "limited": "leased semaphore"}
    for core in CORES[kind]:
        side = {"read lock", "write lock"} if kind == "read_write_lock" else set[str]()
        assert core.kind in {words.get(kind, kind.replace("_", " ")), *side}


@pytest.mark.parametrize("kind", seen())
@pytest.mark.parametrize("name", ["orders", "{orders}:42", "a:timeout"])
def test_what_is_seen_has_a_name_and_a_channel(kind: str, name: str) -> None:
    """The key of an object leads back to its name, and there is a channel to listen at."""
    row = seen()[kind]
    assert name_in(row.seen_at(name), row.seen_at) == name
    assert row.channel is not None
    assert name.strip("{}") in row.channel(name)


def test_everything_is_played() -> None:
    """Two clients do what each kind can (`DOINGS`), and the simulator plays each lock (`KINDS`)."""
    assert DOINGS.keys() == {kind for kind, row in KINDS.items() if row.scripts}
    cores = [core for each in CORES.values() for core in each if issubclass(core, LockBase)]
    assert PLAYED.keys() == {core.kind for core in cores}
    for core in cores:
        _ = rules_of(core)


def test_the_key_of_a_lease_is_not_that_of_a_lock() -> None:
    """Keys that cannot belong to a kind are left as they are."""
    assert name_in("x", names.permit_leases) == "x"
    assert name_in("{x}:timeout", names.permit_leases) == "x"


def test_only_kinds_with_tickets_are_adopted(bench: Bench) -> None:
    """A word of a ticket that no class has leads to no lock."""
    assert {core.kind for each in CORES.values() for core in each} >= WITH_TICKETS.keys()
    for word in WITH_TICKETS:
        assert lock_of(bench.session, Ticket(word, "a:1", None, "x")).kind == word
    with pytest.raises(ConfigError):
        lock_of(bench.session, Ticket("group lock", "a:1", None, "x"))
