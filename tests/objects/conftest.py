"""The suite's parameters: ``--on cluster`` chooses where the objects are kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from tests.objects.kinds import KINDS, Kind
from tests.objects.places import PLACES, Place
from tests.objects.stage import Stage
from tests.objects.trouble import troubled
from tests.objects.worlds import WORLDS, World, parameters
from tests.support.servers import RedisServer

from interlock._core.locks import fair_lock, together
from interlock._core.objects import condition, election
from interlock._core.queue import places


@pytest.fixture(scope="session")
def whole_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with PLACES[request.config.getoption("--on")]() as place:
        yield place


@pytest.fixture
def place(whole_place: Place) -> Place:
    whole_place.begin()
    return whole_place


@pytest.fixture
def seen(place: Place) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(place.urls[0]) as client:
        yield client


@pytest.fixture(params=parameters(*WORLDS))
def world(request: pytest.FixtureRequest) -> World:
    return WORLDS[request.param]()


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
def stage(
    world: World, place: Place, kind: Kind, patient: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    """Give each lock-like on each face and driver.

    A server that is well is no late one to a red lock, though a busy machine may not run it in time.
    """
    monkeypatch.setattr(together, "LINGER", 1.0)
    made = Stage(world, place, kind)
    yield made
    made.end()


@pytest.fixture
def scene(world: World, place: Place, patient: None) -> Iterator[Stage]:
    """Give each face and driver, for objects that are no lock-likes."""
    made = Stage(world, place)
    yield made
    made.end()


@pytest.fixture
def by_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody look by itself for a minute: whoever goes on sooner was told."""
    for module in (places, fair_lock, condition, election):
        monkeypatch.setattr(module, "POLL", 60.0)
    monkeypatch.setattr(places, "LONGEST_POLL", 60.0)


@pytest.fixture(scope="session")
def own_servers() -> Iterator[list[RedisServer]]:
    with RedisServer() as one, RedisServer() as two, RedisServer() as three:
        yield [one, two, three]


@pytest.fixture
def trouble(world: World, own_servers: list[RedisServer], kind: Kind) -> Iterator[Stage]:
    with troubled(own_servers[: kind.servers]) as place:
        made = Stage(world, place, kind)
        yield made
        made.end()


@pytest.fixture
def troubled_scene(world: World, own_servers: list[RedisServer]) -> Iterator[Stage]:
    """Give each face and driver at a `TroubledPlace`, for objects that are no lock-likes."""
    with troubled(own_servers[:1]) as place:
        made = Stage(world, place)
        yield made
        made.end()
