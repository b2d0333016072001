"""Headers and texts of the Lua scripts agree, and replies are read correctly."""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
from typing import TYPE_CHECKING

import pytest
from tests.support.scripts import LUA, SENT, TEXTS

from interlock._core import scripts
from interlock._core.model.effects import Script
from interlock._core.scripts.loader import Variants
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
HEADER = re.compile(r"^-- (KEYS|ARGV) +(.+)$", re.MULTILINE)
README = LUA.joinpath("README.md").read_text(encoding="utf-8")


def names_of(stem: str) -> list[str]:
    """Return the names in the header of a script, as they stand there."""
    return [name for _, names in HEADER.findall(TEXTS[stem]) for name in names.split(", ")]


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
def test_a_header_names_what_the_body_uses(stem: str) -> None:
    """Each name of a header is used and explained; what has a name is not used by its number."""
    body = "\n".join(line for line in TEXTS[stem].splitlines() if not line.startswith("--"))

    for name in names_of(stem):
        bare = name.strip("#?.")
        rest = name.endswith("...") and re.search(r"\b(KEYS|ARGV)\b", body)
        assert rest or re.search(rf"\b{bare}\b", body), name
        assert f"`{bare}`" in README, name
    assert set(re.findall(r"KEYS\[\d+\]", body)) <= {"KEYS[0]", "KEYS[200]"}
    assert not re.findall(r"ARGV\[\d+\]", body)


def test_every_explained_name_is_in_a_header() -> None:
    """The README explains no name that no script has."""
    explained = {
        name
        for row in re.findall(r"^\| (`.*?`) \|", README, re.MULTILINE)
        for name in row.split(", ")
    }
    used = {f"`{name.strip('#?.')}`" for stem in TEXTS for name in names_of(stem)}

    assert explained - {"`name?`", "`#name`", "`name...`"} == used


def test_every_part_is_included_in_some_script() -> None:
    """Each file in ``lua/parts`` is in two scripts or more, and no line is left to include."""
    names = [path.name.removesuffix(".lua") for path in LUA.joinpath("parts").iterdir()]

    assert names
    for name in names:
        assert sum(f"-- {name} (part): " in text for text in TEXTS.values()) > 1, name
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
