"""The suite of all lock-likes, on servers that refuse what each service refuses.

Each test of the other files that needs no more than a `Stage` runs with each lock-like under the
rules of each service. All lock-likes run it at once, each on servers of its own: most of the time
they wait. Each has one of the two faces, and the other one under the next rules. Services with the
same rules stand together. No server sees what only the client forbids a lock that is not reentrant.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import redis
from tests.lock import test_lock_blocks, test_lock_crowds, test_lock_holds, test_lock_owners
from tests.lock.lock_like import KINDS, Face, Kind, Stage
from tests.support.model.served import ModelServer
from tests.support.model.strict import MODES, Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FACES = ("sync", "asyncio")
ASK = {"stage", "same_client", "entry"}
"""What a test of the suite may ask for: a stage, and parameters of its own."""
ALONE = {test_lock_holds.test_waiting_for_a_loss_again_and_again}
"""It counts objects of the whole process."""


def _suite() -> dict[str, Callable[..., Any]]:
    """Return the tests by their names."""
    return {
        name: test
        for module in (test_lock_owners, test_lock_holds, test_lock_blocks, test_lock_crowds)
        for name, test in vars(module).items()
        if name.startswith("test_")
        and test not in ALONE
        and {"stage"} <= set(inspect.signature(test).parameters) <= ASK
    }


def _alike() -> list[list[str]]:
    """Return the names of all modes, those with the same rules together."""
    found = defaultdict[Mode, list[str]](list)
    for name, mode in MODES.items():
        found[replace(mode, document="")].append(name)
    return list(found.values())


def _parameters(test: Callable[..., Any]) -> dict[str, list[Any]]:
    """Return the values of each parameter of *test*."""
    marks = [mark.args for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    return {name: list(values) for name, values in marks}


def _cases(test: Callable[..., Any], turn: int) -> Iterator[tuple[Kind, Face, dict[str, Any]]]:
    """Yield each lock-like with its face and the arguments of *test*."""
    values = _parameters(test)
    kinds = values.pop("kind", KINDS)
    faces = values.pop("face", FACES)
    for number, kind in enumerate(each for each in kinds if not each.name.endswith("-once")):
        face = Face(faces[(turn + number) % len(faces)])
        for chosen in itertools.product(*values.values()):
            yield kind, face, dict(zip(values, chosen, strict=True))


class _Stage(Stage):
    """A stage whose servers may not count who listens.

    There the place of a client that has gone stays in the queue until the queue expires.
    """

    def left_behind(self, name: str = "name") -> set[str]:
        """Return what should not be there, but for such a queue."""
        return {key for key in super().left_behind(name) if not key.startswith("interlock_queue:")}


async def _perform(
    test: Callable[..., Any], mode: str, kind: Kind, face: Face, arguments: dict[str, Any]
) -> None:
    """Run *test* with one lock-like, on new servers."""
    with ExitStack() as stack:
        fakes = [stack.enter_context(ModelServer(strict=mode)) for _ in range(kind.servers)]
        client = stack.enter_context(redis.Redis.from_url(fakes[0].url))
        counts = "PUBSUB" not in MODES[mode].in_scripts
        stage = (Stage if counts else _Stage)(
            face, kind, fakes[0].url, client, [fake.url for fake in fakes[1:]]
        )
        try:
            await test(stage, **arguments)
        except BaseException as error:
            how = "asyncio" if face.is_async else "sync"
            error.add_note(f"with {kind.name}, {how}, {arguments or 'no arguments'}, on {mode}")
            raise
        finally:
            await stage.end()


@pytest.mark.parametrize(
    ("turn", "modes"),
    [pytest.param(turn, modes, id="+".join(modes)) for turn, modes in enumerate(_alike())],
)
@pytest.mark.parametrize("test", _suite().values(), ids=_suite())
async def test_every_lock_like(
    patient: None, test: Callable[..., Any], turn: int, modes: list[str]
) -> None:
    """Under the rules of each service, each test passes with each lock-like."""
    runs = [_perform(test, modes[0], *case) for case in _cases(test, turn)]
    results = await asyncio.gather(*runs, return_exceptions=True)
    if failures := [each for each in results if isinstance(each, Exception)]:
        raise ExceptionGroup(f"{test.__name__} on {' and '.join(modes)}", failures)
