"""What Java did, on file: for each sequence, and for field names, a line per record."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .sequences import NAMES, purpose

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .stage import State

DIRECTORY = Path(__file__).parent / "fixtures"
FIELDS = DIRECTORY / "highwayhash.jsonl"
"""Field names of string values in a group lock, through StringCodec (UTF-8)."""
LENGTHS = (*range(4, 37, 3), 47, 48, 49, 63, 64, 65, 80, 95, 96, 97, 127, 128)
HASHED = [
    *("", "a", "ab", "abc", "1", "42", "order:1", "order:2", "stock/42", "account 7", "aaa"),
    *("\n", " ", "{a}", "a:b:c", "\u00e4", "\u65e5\u672c\u8a9e", "\U0001f512"),
    *("A" * 255, "x" * 1000),
    *(("0123456789abcdefghijklmnopqrstuvwxyz" * 4)[:length] for length in LENGTHS),
]
"""Values of group locks: every length around the hash's 32-byte packets, and text of all kinds."""


def path(sequence: str) -> Path:
    """Return the file of *sequence*, played under the name without braces."""
    return DIRECTORY / f"{sequence}.jsonl"


def read(file: Path, name: str = "") -> list[Any]:
    """Return the records on *file*, as they are under *name*.

    Redisson adds braces to a name that has none; to the channel of a latch it always adds them.
    """
    text, (plain, braced) = file.read_text(), NAMES
    if name == braced:
        text = re.sub(rf"(?<!latch__channel__)\{{{plain}\}}", plain, text).replace(plain, braced)
    return [json.loads(line) for line in text.splitlines()]


def write(file: Path, records: Iterable[Any]) -> None:
    file.write_text("".join(json.dumps(each) + "\n" for each in records))


def merged(sequence: str, java: list[State], python: list[State]) -> list[dict[str, Any]]:
    """Return Java's states, with what Python leaves where that is something else on purpose.

    Raises:
        ValueError: a difference that nobody explained, or an explained one that is gone.
    """
    return [_merged(sequence, n, *both) for n, both in enumerate(zip(java, python, strict=True))]


def _merged(sequence: str, step: int, java: State, python: State) -> dict[str, Any]:
    why = purpose(sequence, step)
    different = {part: python[part] for part in java if java[part] != python[part]}
    if bool(different) != bool(why):
        raise ValueError(
            f"{sequence}, step {step}, {java['step']}: purpose is {why!r},"
            f" Java left { ({part: java[part] for part in different}) }, Python {different}"
        )
    return {**java, "why": why, "interlock": different} if why else dict(java)


def of_java(states: list[dict[str, Any]]) -> list[State]:
    return [
        {part: state[part] for part in ("step", "answer", "keys", "messages")} for state in states
    ]


def of_python(states: list[dict[str, Any]]) -> list[State]:
    return [
        java | state.get("interlock", {})
        for java, state in zip(of_java(states), states, strict=True)
    ]
