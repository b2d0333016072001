"""Headers, texts and constructors of the Lua scripts agree, and replies are read correctly.

A header declares exactly the parameters that the text uses and the constructor sends.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.scripts import LUA, SENT, TEXTS

from interlock._core import scripts
from interlock._core.model.effects import NEVER, Eval, Script
from interlock._core.scripts import lock
from interlock._core.scripts.script import (
    GRANTED,
    ReplyShapeError,
    Variants,
    done,
    grant_or_left,
    kept,
    many,
    milliseconds,
    number,
    seconds,
    text,
    text_of,
)
from interlock._core.scripts.source import MESSAGES

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

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
        optional: how many of each of the two may be left out.
    """

    declared: dict[str, list[int]]
    open_ended: set[str]
    optional: dict[str, int]


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
    optional = {
        table: len(
            re.findall(rf"^-- {table}.*{_CONTINUED}; may be left out", TEXTS[stem], re.MULTILINE)
        )
        for table in declared
    }
    return Header(declared, open_ended, optional)


def body_of(stem: str) -> list[str]:
    """Return the lines of a script after its header."""
    return [line for line in TEXTS[stem].splitlines() if not line.startswith("--")]


def sample(annotation: str, module: ModuleType, name: str) -> Any:
    """Return something that a parameter of a constructor may be."""
    simple: dict[str, Any] = {
        "str": {"publish": "PUBLISH", "channel": "channel:{name}"}.get(name, name),
        "int": 2,
        "float": 1.5,
        "bool": True,
        "Sequence[str]": ["of:{a}", "of:{b}", "of:{c}"],
    }
    if annotation in simple:
        return simple[annotation]
    if annotation.startswith("tuple["):
        parts = annotation.removeprefix("tuple[").removesuffix("]").split(", ")
        return tuple(sample(part, module, name) for part in parts)
    return build(getattr(module, annotation), module)


def build(made: Callable[..., Any], module: ModuleType) -> Any:
    """Call *made* with something for each parameter without a default."""
    given = {
        p.name: sample(getattr(p.annotation, "__forward_arg__", str(p.annotation)), module, p.name)
        for p in inspect.signature(made).parameters.values()
        if p.default is inspect.Parameter.empty
    }
    return made(**given)


def loaded() -> dict[str, tuple[ModuleType, Script[Any] | Variants[Any]]]:
    """Return every loaded script and its module, by the name of the constant."""
    return {
        name: (module, value)
        for module in MODULES
        for name, value in vars(module).items()
        if isinstance(value, Script | Variants)
    }


def test_every_text_is_loaded_once_and_has_a_constructor() -> None:
    """A script's file, constant and constructor share one stem, and none is without the others."""
    constants = loaded()

    wanted = sorted(f"_{stem.upper()}" for stem in TEXTS)
    assert sorted(constants) == wanted, "each lua/x.lua is the constant _X of a module in scripts/"
    for name, (module, script) in constants.items():
        assert script.name == name[1:].lower()
        told = dict.fromkeys(MESSAGES, script) if isinstance(script, Script) else script
        for publish in MESSAGES:
            assert told[publish].text == SENT[script.name][publish]
        assert inspect.isfunction(getattr(module, script.name))


@pytest.mark.parametrize("stem", TEXTS)
def test_first_lines_bind_what_the_header_declares(stem: str) -> None:
    """The body first names each declared parameter; nothing below refers to one by its number."""
    header, body = header_of(stem), body_of(stem)
    binding = [line for line in body if REFERENCE.search(line)]
    assert body[: len(binding)] == binding
    assert all(line.startswith("local ") for line in binding)
    used: dict[str, set[int]] = {"KEYS": set(), "ARGV": set()}
    for table, index in REFERENCE.findall("\n".join(binding)):
        declared = header.declared[table]
        # The table itself stands for all that has no number of its own.
        used[table] |= {int(index)} if index else set(declared[-1:])
        assert index or table in header.open_ended
    for table, declared in header.declared.items():
        assert used[table] == set(declared), table


@pytest.mark.parametrize("stem", TEXTS)
def test_constructor_sends_what_the_header_declares(stem: str) -> None:
    """A constructor sends the declared number of keys and arguments, and passes its deadline on."""
    module, script = loaded()[f"_{stem.upper()}"]
    header = header_of(stem)
    call = build(getattr(module, stem), module)

    assert isinstance(call, Eval)
    assert call.script in ([script] if isinstance(script, Script) else script.values())
    assert call.deadline == NEVER
    for table, sent in (("KEYS", call.keys), ("ARGV", call.args)):
        most = math.inf if table in header.open_ended else len(header.declared[table])
        assert len(header.declared[table]) - header.optional[table] <= len(sent) <= most, table
    assert not any(isinstance(arg, float | bool) for arg in call.args)


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
    free, taken = lock.status([-2]), lock.status([-1, b"h:1", b"3"])

    assert (free.remaining, free.holders) == (None, {})
    assert (taken.remaining, taken.holders) == (math.inf, {"h:1": 3})
