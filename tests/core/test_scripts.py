"""Headers, texts and constructors of the Lua scripts agree, and replies are read correctly.

A header declares exactly the parameters that the text uses and the constructor sends.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.support.scripts import LUA, SENT, TEXTS

from interlock._core import scripts
from interlock._core.model.calls import Script
from interlock._core.scripts.loader import Variants, text_of
from interlock._core.scripts.locks import status
from interlock._core.scripts.script import (
    GRANTED,
    ReplyShapeError,
    done,
    grant_or_left,
    kept,
    many,
    milliseconds,
    number,
    seconds,
    text,
)
from interlock._core.scripts.source import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable

MODULES = [
    importlib.import_module(f"{scripts.__name__}.{module.name}")
    for module in pkgutil.iter_modules(scripts.__path__)
]
PARAMETER = re.compile(r"-- (KEYS|ARGV)\[(\d+)(\.\.n)?\] +(\S+) +(\S.*)")
_CONTINUED = r"(?:\n-- {9,}.*)*"
REFERENCE = re.compile(r"\b(KEYS|ARGV)(?:\[(\d+)\])?")


@dataclass(frozen=True)
class Header:
    """What the comment before a script says.

    Attributes:
        declared: the indexes of KEYS and of ARGV.
        open_ended: which of the two may have more.
    """

    declared: dict[str, list[int]]
    open_ended: set[str]


def header_of(stem: str) -> Header:
    """Return the header of a script."""
    lines = [line for line in TEXTS[stem].splitlines() if line.startswith("--")]
    declared: dict[str, list[int]] = {"KEYS": [], "ARGV": []}
    open_ended: set[str] = set()
    for line in lines:
        if parameter := PARAMETER.fullmatch(line):
            table, index, more, _, _ = parameter.groups()
            declared[table].append(int(index))
            if more:
                open_ended.add(table)
        else:
            assert not line.startswith(("-- KEYS", "-- ARGV")), f"cannot be read: {line}"
    return Header(declared, open_ended)


def body_of(stem: str) -> list[str]:
    """Return the lines of a script after its header."""
    return [line for line in TEXTS[stem].splitlines() if not line.startswith("--")]


def test_every_text_is_loaded() -> None:
    """Each script is a constant of a module, and sends what the server is said to be sent."""
    found = [
        value
        for module in MODULES
        for value in vars(module).values()
        if isinstance(value, Script | Variants)
    ]

    assert {script.name for script in found} == TEXTS.keys()
    for script in found:
        told = dict.fromkeys(MESSAGES, script) if isinstance(script, Script) else script
        for publish in MESSAGES if isinstance(script, Variants) else ("",):
            assert told[publish].text == SENT[script.name][publish]


@pytest.mark.parametrize("stem", TEXTS)
def test_the_header_declares_what_the_body_uses(stem: str) -> None:
    """Each declared parameter is used, and nothing that is not declared."""
    header, body = header_of(stem), "\n".join(body_of(stem))
    used: dict[str, set[int]] = {"KEYS": set(), "ARGV": set()}
    for table, index in REFERENCE.findall(body):
        # The table itself stands for all that has no number of its own.
        used[table] |= {int(index)} if index else set(header.declared[table][-1:])
        assert index or table in header.open_ended
    for table, declared in header.declared.items():
        if table in header.open_ended:
            used[table] &= set(declared)
        assert declared == list(range(1, len(declared) + 1))
        assert used[table] - {0} == set(declared), table  # KEYS[0] is nil


def test_every_part_is_included_in_some_script() -> None:
    """Each file in ``lua/parts`` is in two scripts or more, and no line is left to include."""
    names = [path.name.removesuffix(".lua") for path in LUA.joinpath("parts").iterdir()]
    parts = [text_of(f"parts/{name}") for name in names]

    assert parts
    assert all(sum(part in text for text in TEXTS.values()) > 1 for part in parts)
    assert not [stem for stem, text in TEXTS.items() if "include:" in text]


@pytest.mark.parametrize(
    ("given", "sent"), [(0.0, 1), (0.0001, 1), (0.0015, 2), (1.0, 1000), (30.0, 30_000)]
)
def test_milliseconds_are_whole_and_never_none(given: float, sent: int) -> None:
    """No duration becomes one that the server refuses."""
    assert milliseconds(given) == sent


@pytest.mark.parametrize(
    ("decode", "reply", "read"),
    [
        (done, 1, True),
        (done, 0, False),
        (done, None, False),
        (seconds, 1500, 1.5),
        (seconds, -1, math.inf),
        (seconds, -2, -0.002),
        (grant_or_left, None, GRANTED),
        (grant_or_left, 1500, 1.5),
        (many, [1, b"x"], [1, b"x"]),
        (kept, [1, 0], [True, False]),
        (number, 7, 7),
        (text, b"x", "x"),
    ],
)
def test_reply_is_read(decode: Callable[[object], object], reply: object, read: object) -> None:
    """The common replies become core units."""
    assert decode(reply) == read


@pytest.mark.parametrize(
    ("decode", "reply"),
    [
        (done, 2),
        (seconds, b"1"),
        (grant_or_left, b"1"),
        (grant_or_left, [0, b"j\x8e"]),
        (many, 1),
        (kept, [b"1"]),
        (number, None),
        (text, 1),
    ],
)
def test_reply_of_another_shape_is_refused(
    decode: Callable[[object], object], reply: object
) -> None:
    """A reply that the script cannot have given is refused."""
    with pytest.raises(ReplyShapeError):
        decode(reply)


def test_status_is_read() -> None:
    """A lock that nobody holds has no time left; one that never ends has infinitely much."""
    free, taken = status([-2]), status([-1, b"h:1", b"3"])

    assert (free.remaining, free.holders) == (None, {})
    assert (taken.remaining, taken.holders) == (math.inf, {"h:1": 3})
