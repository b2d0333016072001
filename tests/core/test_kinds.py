"""The catalogue of kinds: complete, and true of what it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.core.simulator import Simulator
from tests.core.simulator.schedule import Schedule
from tests.support.cores import CORES

import interlock
from interlock._core.locks.ticket import KINDS as WITH_TICKETS
from interlock._core.locks.ticket import Ticket, core_of
from interlock.errors import ConfigError
from interlock.inspection.kinds import KINDS
from interlock.options import Options

if TYPE_CHECKING:
    from interlock._core.upkeep.session import Session


def session() -> Session:
    """Return the state of a client."""
    return Simulator(1, Schedule()).client(Options()).session


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


def test_only_kinds_with_tickets_are_adopted() -> None:
    """A word of a ticket that no class has leads to no lock."""
    assert {core.kind for each in CORES.values() for core in each} >= WITH_TICKETS.keys()
    for word in WITH_TICKETS:
        assert core_of(session(), Ticket(word, "a:1", None, "x")).kind == word
    with pytest.raises(ConfigError):
        core_of(session(), Ticket("group lock", "a:1", None, "x"))
