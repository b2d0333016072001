"""What a failure tells: the command that runs it again, and what its servers logged."""

from __future__ import annotations

import shlex
import traceback
from typing import TYPE_CHECKING, cast

from tests.support.server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def again(command: str, **options: object) -> str:
    """Return the line that tells how to run *command* again with *options*.

    None and False leave an option out; True is an option without a value.
    """
    words = [command]
    for name, value in options.items():
        values = cast("list[object]", value) if isinstance(value, list) else [value]
        given = [each for each in values if each is not None and each is not False]
        words += [
            f"--{name}" if each is True else f"--{name} {shlex.quote(str(each))}" for each in given
        ]
    return f"to run it again: python -m {' '.join(words)}"


def logs(fixtures: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield for each server that runs in *fixtures* where it is, and its latest log.

    Args:
        fixtures: names and values; a value may be a group of servers.
    """
    seen: set[int] = set()
    for name, value in fixtures.items():
        for place, server in _servers(name, value):
            if id(server) not in seen and server.alive:
                seen.add(id(server))
                yield place, server.log_tail()


def chances(error: BaseException) -> Iterator[str]:
    """Yield what the functions that *error* went through had drawn or planned, outermost first."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for name in ("seed", "schedule", "fault", "place", "at"):
            if name in frame.f_locals:
                yield f"{frame.f_code.co_name}: {name} = {frame.f_locals[name]!r}"


def _servers(name: str, value: object) -> Iterator[tuple[str, RedisServer]]:
    if isinstance(value, RedisServer):
        yield name, value
        return
    own: dict[str, object] = getattr(value, "__dict__", {})
    parts: dict[str, object] = {"": value, **{f".{part}": each for part, each in own.items()}}
    for part, each in parts.items():
        if isinstance(each, RedisServer):
            yield f"{name}{part}", each
        elif isinstance(each, list | tuple):
            for number, server in enumerate(cast("Sequence[object]", each)):
                if isinstance(server, RedisServer):
                    yield f"{name}{part}[{number}]", server
