"""Lua scripts of the library do on the model what they do on a real server.

The arguments are made from the headers of the scripts: what a parameter is called and declared to
be decides what it may be. Those that serve a queue are not among them: its members are times, and
ids that only a client makes. `tests.core` plays these on real servers and on the model.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.support.scripts import SENT, TEXTS
from tests.testing.redis_twin import LONG, Twin, comparable, real_redis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.needs("redis-7.0")

_STEPS = 150
_LETTERS = "abc"
_HEADER = re.compile(
    r"^--\s+(?P<table>KEYS|ARGV)\[(?P<first>\d+)(?P<more>\.\.[^\]]+)?\]"
    r"\s+(?P<name>\S+)\s*(?P<note>.*)$",
    re.MULTILINE,
)


def _duration(rng: random.Random) -> int:
    return rng.randint(LONG, 10**9)


def _now(rng: random.Random) -> int:
    return int(time.time() * 1000)


# What a parameter's name says it is, the first match decides.
_BY_NAME: tuple[tuple[str, Callable[[random.Random], str | int]], ...] = (
    (r"holder|owner|waiter|reader|writer", lambda rng: f"{rng.choice(_LETTERS) * 4}:1"),
    (r"channel", lambda rng: f"channel:{{{rng.choice(_LETTERS)}}}"),
    (r"\bnow\b", _now),
    (r"deadline|until|expir", lambda rng: _now(rng) + _duration(rng)),
    (r"lease|timeout|wait|ttl|remaining|validity|latch_", _duration),
)


@dataclass(frozen=True)
class _Parameter:
    name: str
    note: str
    repeated: bool

    def argument(self, rng: random.Random) -> str | int:
        for pattern, make in _BY_NAME:
            if re.search(pattern, self.name):
                return make(rng)
        if digits := re.search(r"(\d+) hex digits( each)?", self.note):
            count = rng.randint(1, 2) if digits[2] else 1
            return "".join(letter * int(digits[1]) for letter in rng.sample(_LETTERS, count))
        if values := re.findall(r"(\d+): ", self.note):
            return rng.choice(values)
        if not self.note.startswith("integer"):
            permits = f"::leased:{rng.randint(1, 2)}" if "::leased:<permits>" in self.note else ""
            return rng.choice(_LETTERS) + permits
        if "milliseconds" in self.note:
            return _duration(rng)
        limit = re.search(r">=? *(\d+)", self.note)
        lowest = int(limit[1]) + (">=" not in limit[0]) if limit else -2
        numbers = set(range(lowest, lowest + 4)) - ({0} if "not 0" in self.note else set())
        return rng.choice(sorted(numbers))

    def key(self, rng: random.Random, letter: str) -> str:
        # What one call leaves for its repetition: there are some, and one call names another's.
        if self.name in ("request", "spent"):
            return f"request:{{{letter}}}:{rng.randint(1, 5)}"
        return f"{self.name}:{{{letter}}}"


@dataclass(frozen=True)
class _Script:
    name: str
    keys: tuple[_Parameter, ...]
    args: tuple[_Parameter, ...]

    @property
    def family(self) -> str:
        return self.name.partition("_")[0]

    @property
    def key_names(self) -> set[str]:
        return {key.name for key in self.keys}

    @classmethod
    def parse(cls, name: str, text: str) -> _Script:
        declared: dict[str, list[tuple[int, _Parameter]]] = {"KEYS": [], "ARGV": []}
        for line in _HEADER.finditer(text):
            parameter = _Parameter(line["name"], line["note"], line["more"] is not None)
            declared[line["table"]].append((int(line["first"]), parameter))
        for parameters in declared.values():
            assert [first for first, _ in parameters] == list(range(1, len(parameters) + 1)), name
        keys, args = (tuple(p for _, p in parameters) for parameters in declared.values())
        return cls(name, keys, args)

    def call(self, rng: random.Random) -> list[str | int]:
        """Return an EVAL of some variant of the script; its *parameters* follow."""
        text = rng.choice(tuple(SENT[self.name].values()))
        # How long a server has run is no state, and each server tells another time.
        text = text.replace("redis.pcall('info', 'server')", "nil")
        return ["EVAL", text, *self.parameters(rng)]

    def parameters(self, rng: random.Random) -> list[str | int]:
        """Return the number of keys, keys and arguments; those repeated are equally many."""
        letters = rng.sample(_LETTERS, rng.randint(1, len(_LETTERS)))
        keys: list[str] = []
        for parameter in self.keys:
            used = letters if parameter.repeated else letters[:1]
            keys += [parameter.key(rng, letter) for letter in used]
        args: list[str | int] = []
        for parameter in self.args:
            times = len(letters) if parameter.repeated else 1
            args += [parameter.argument(rng) for _ in range(times)]
        return [len(keys), *keys, *args]


_ALIKE = re.compile(
    r"(card|forced|group|event)_.*|lock_(acquire|give|query|renew)|read_write_query"
    r"|leased_(renew|query|set|try_set|add|delete)"
)
_SCRIPTS = [_Script.parse(name, text) for name, text in TEXTS.items() if _ALIKE.fullmatch(name)]
_FAMILIES = sorted({script.family for script in _SCRIPTS})


@pytest.fixture(scope="module")
def reference() -> Iterator[Path]:
    """Give the socket of the reference server."""
    with real_redis() as path:
        yield path


@pytest.mark.parametrize("family", _FAMILIES)
def test_scripts_behave_on_the_model_as_on_a_real_server(reference: Path, family: str) -> None:
    """Random conversations get equal replies and leave equal data, and each script gets through."""
    own = [script for script in _SCRIPTS if script.family == family]
    names = set().union(*(script.key_names for script in own))
    company = [script for script in _SCRIPTS if script.key_names & names]
    succeeded: Counter[str] = Counter()
    errors: dict[str, object] = {}
    for seed in range(4):
        rng = random.Random(f"{family}{seed}")
        with Twin(reference) as twin:
            for _ in range(_STEPS):
                if rng.random() < 0.05 and (keys := sorted(twin.model.dump())):
                    twin.check("DEL", rng.choice(keys))
                script = rng.choice(rng.choice((own, company)))
                reply = twin.check(*script.call(rng), near=True)
                if isinstance(reply, Exception):
                    errors[script.name] = comparable(reply)
                else:
                    succeeded[script.name] += 1
                twin.check_dumps()
    for script in own:
        assert succeeded[script.name], f"{script.name} never succeeds: {errors[script.name]}"
