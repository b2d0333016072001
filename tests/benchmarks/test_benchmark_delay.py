"""The proxy that makes a server seem far away."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import redis
from benchmarks.compare import Contender
from benchmarks.delay import far_away
from benchmarks.measure import Case, Pace
from benchmarks.peers import interlock
from benchmarks.peers.rivals import ADVISORY
from benchmarks.report import as_json
from benchmarks.work import conduct
from benchmarks.works import fleet

if TYPE_CHECKING:
    from benchmarks.peer import Peer
    from tests.support.server import RedisServer

pytestmark = pytest.mark.timeout(300)  # many processes, on a machine that may be busy

AWAY = 0.02


def test_a_round_trip_takes_that_much_longer(server: RedisServer) -> None:
    """Every reply comes after the round trip, and in order."""
    with (
        far_away(str(server.port), AWAY) as port,
        redis.Redis(port=port) as client,
        client.pipeline(transaction=False) as pipeline,
    ):
        began = time.monotonic()
        assert client.ping()
        assert time.monotonic() - began >= AWAY
        for number in range(100):
            pipeline.echo(str(number))
        assert pipeline.execute() == [str(number).encode() for number in range(100)]


def test_a_fleet_is_measured_far_away() -> None:
    """Each server is far away: no process takes more turns than there are round trips."""
    case = Case("threads", 1, processes=2, away=AWAY)
    peers: tuple[Peer, ...] = (interlock.SYNC, ADVISORY)
    chosen = replace(fleet.WORK, contenders=tuple(Contender(case, peer) for peer in peers))
    report = conduct(chosen, pace=Pace(0.1, 1.0), rounds=1, seed=1)
    assert str(case) == "2 x 1 thread, 20 ms away"
    for result in as_json(report)["results"]:
        assert result["error"] is None
        assert set(result["figures"]) >= {column.name for column in fleet.WORK.columns}
        # Of two processes, each sends at least one command of which it waits for the reply.
        assert 0 < result["figures"]["rate"]["median"] <= 2 / AWAY
