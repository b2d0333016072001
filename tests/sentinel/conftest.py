"""Fixtures of the Sentinel tests: one bed for all of them, mended after each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.objects.awaited import KINDS, Face, Stage
from tests.support.servers import SentinelServers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(scope="session")
def whole_bed() -> Iterator[SentinelServers]:
    """Give a primary with two replicas under three Sentinels.

    The Sentinels take a primary for down after two seconds, because a machine may stall for one.
    """
    with SentinelServers(down_after=2.0) as servers:
        yield servers


@pytest.fixture
def bed(whole_bed: SentinelServers) -> SentinelServers:
    """Give the bed with everybody up and no data, whatever the test before did to it."""
    whole_bed.heal()
    return whole_bed


@pytest.fixture
async def stage(face: Face, bed: SentinelServers) -> AsyncIterator[Stage]:
    """Give each face in turn, with the plain lock, on the service as a whole."""
    with bed.present_primary().client() as seen:
        set_up = Stage(face, KINDS[0], bed.url(), seen)
        yield set_up
        # Whatever was killed comes back first: closing releases.
        bed.heal()
        await set_up.end()
