"""A red lock does not wait for its slowest servers once a quorum has granted it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.awaited import until

from interlock._core.locks import together

if TYPE_CHECKING:
    from tests.composite.table import Table
    from tests.objects.awaited import Owner

PATIENCE = 40.0
"""Seconds that a server is given to answer (see the fixture `patience`)."""
LINGER = 0.01
"""Seconds for which servers may still grant it after a quorum has."""
FIVE = pytest.mark.parametrize("own_servers", [5], indirect=True)


async def _warm_up(own: Table, owner: Owner, lock: Any) -> None:
    """Connect to all servers. A grant that came late stays until it is given back."""
    await owner.do(lock.acquire)
    await owner.do(lock.release)
    await until(lambda: own.stored() == [[]] * 5, 10, "late grants are given back")


@FIVE
async def test_the_slowest_are_not_waited_for(own: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of five servers decide. Later grants are given back while it is held."""
    clients, owner = own.clients(), own.owner()
    lock = own.red(clients)
    await _warm_up(own, owner, lock)
    for server in own.servers[:2]:
        server.pause()
    began = time.monotonic()
    assert await owner.do(lock.acquire, timeout=0)
    assert time.monotonic() - began < PATIENCE
    for server in own.servers[:2]:
        server.resume()
    await until(lambda: own.stored() == [[], [], *[["name"]] * 3], 10, "three have it")
    await owner.do(lock.release)
    await until(lambda: own.stored() == [[]] * 5, 10, "nothing is left")
    monkeypatch.setattr(together, "LINGER", PATIENCE)
    assert await owner.do(lock.acquire, timeout=0)
    assert own.stored() == [["name"]] * 5
    await owner.do(lock.release)
