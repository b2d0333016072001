"""The suite of all lock-likes, on servers that refuse what each service refuses.

Each test of the files below that needs no more than a `Stage` runs with each lock-like under the
rules of each service. All lock-likes run it at once, each on servers of its own: most of the time
they wait. Each has one of two faces, and the other one under the next rules. Services with the same
rules stand together. No server sees what only the client forbids a lock that is not reentrant.
"""

from __future__ import annotations

import inspect
import itertools
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import redis
from _pytest.mark import ParameterSet
from tests.objects import test_blocks, test_holds_and_losses, test_lock_likes
from tests.objects.kinds import KINDS
from tests.objects.places import Place
from tests.objects.stage import Stage
from tests.objects.worlds import WORLDS
from tests.support.model.served import ModelServer
from tests.support.model.strict import MODES, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.objects.kinds import Kind

FACES = ("threads", "asyncio")
WARNED = "test_a_block_that_is_gone_ends_its_hold"
"""A test of warnings, which are caught for the whole process: it needs that for itself."""
ASK = {"stage", "kind", "same_client", "name", "way"}
"""What a test of the suite may ask for: a stage, and parameters of its own."""


def _suite() -> dict[str, Callable[..., Any]]:
    """Return the tests by their names."""
    return {
        name: test
        for module in (test_lock_likes, test_holds_and_losses, test_blocks)
        for name, test in vars(module).items()
        if name.startswith("test_")
        and name != WARNED
        and {"stage"} <= set(inspect.signature(test).parameters) <= ASK
        and "way,kind" not in _parameters(test)
    }


def _parameters(test: Callable[..., Any]) -> dict[str, list[Any]]:
    """Return the values of each parameter of *test*."""
    marks = [mark.args for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    return {
        name if isinstance(name, str) else ",".join(name): [
            value.values[0] if isinstance(value, ParameterSet) else value for value in values
        ]
        for name, values in marks
    }


def _alike() -> list[list[str]]:
    """Return the names of all modes, those with the same rules together."""
    found = defaultdict[Mode, list[str]](list)
    for name, mode in MODES.items():
        found[replace(mode, document="")].append(name)
    return list(found.values())


class ServedPlace(Place):
    """Served models: nobody counts there who listens."""

    def __init__(self, servers: Sequence[ModelServer]) -> None:
        super().__init__([server.url for server in servers], ())

    def empty(self) -> None:
        """Remove all data."""
        for client in self._clients():
            with client:
                client.flushall()

    def keys_left(self) -> set[str]:
        """Return what is left, but for queues: clients that have gone stay there for a while."""
        return {key for key in super().keys_left() if "_queue:" not in key}

    def rests(self, name: str, clients: int = 1, *, polls: bool = False) -> None:
        """Give everybody time to ask."""
        del name, clients, polls
        time.sleep(0.2)  # nobody can be asked

    def _clients(self) -> Iterator[redis.Redis]:
        return (redis.Redis.from_url(url) for url in self.urls)


def _cases(test: Callable[..., Any], turn: int) -> Iterator[tuple[Kind, str, dict[str, Any]]]:
    """Yield each lock-like with its face and the arguments of *test*."""
    values = _parameters(test)
    kinds = values.pop("kind", KINDS)
    faces = values.pop("world", FACES)
    for number, kind in enumerate(each for each in kinds if not each.name.endswith("-once")):
        for chosen in itertools.product(*values.values()):
            yield (
                kind,
                faces[(turn + number) % len(faces)],
                dict(zip(values, chosen, strict=True)),
            )


def _perform(
    test: Callable[..., Any], mode: str, kind: Kind, face: str, arguments: dict[str, Any]
) -> None:
    """Run *test* with one lock-like, on new servers."""
    with ExitStack() as stack:
        servers = [stack.enter_context(ModelServer(strict=mode)) for _ in range(kind.servers)]
        stage = Stage(WORLDS[face](), ServedPlace(servers), kind)
        try:
            test(stage, **arguments)
        except BaseException as error:
            error.add_note(f"with {kind.name}, {face}, {arguments or 'no arguments'}, on {mode}")
            raise
        finally:
            stage.end()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("turn", "modes"),
    [pytest.param(turn, modes, id="+".join(modes)) for turn, modes in enumerate(_alike())],
)
@pytest.mark.parametrize("test", _suite().values(), ids=_suite())
def test_every_lock_like(test: Callable[..., Any], turn: int, modes: list[str]) -> None:
    """Under the rules of each service, each test passes with each lock-like."""
    with ThreadPoolExecutor(20) as pool:
        runs = [pool.submit(_perform, test, modes[0], *case) for case in _cases(test, turn)]
    # That nothing was raised is no `Exception` of pytest's.
    if failures := [error for run in runs if (error := run.exception()) is not None]:
        raise BaseExceptionGroup(f"{test.__name__} on {' and '.join(modes)}", failures)
