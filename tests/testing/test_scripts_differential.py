"""Lua scripts of the library do on the model what they do on a real server.

The arguments are made from the headers of the scripts: what a parameter is called decides what it
may be. Those that serve a queue are not among them: its members are times, and
ids that only a client makes. `tests.core` plays these on real servers and on the model.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import redis
from tests.support.model.redis_model import ModelError, RedisModel, Stored
from tests.support.scripts import SENT, TEXTS
from tests.support.servers import RedisServer, binaries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.needs("redis-7.0")

LONG = 1_000_000
NEAR_MS = 20_000
"""Durations are far longer than this, and the time between two servers' executions far shorter."""
_STEPS = 150
_LETTERS = "abc"
_HEADER = re.compile(r"^-- (KEYS|ARGV) +(.+)$", re.MULTILINE)


def _duration(rng: random.Random) -> int:
    return rng.randint(LONG, 10**9)


def _choice(*values: str | int) -> Callable[[random.Random], str | int]:
    return lambda rng: rng.choice(values)


# What a parameter may be, by its name in the header of the script; others are letters.
_BY_NAME: dict[str, Callable[[random.Random], str | int]] = {
    **dict.fromkeys(("holder", "successor"), lambda rng: f"{rng.choice(_LETTERS) * 4}:1"),
    "channel": lambda rng: f"channel:{{{rng.choice(_LETTERS)}}}",
    **dict.fromkeys(("lease", "ttl", "keep", "kept"), _duration),
    "count": _choice(1),
    "depth": _choice(0, 1, 2, 3),
    "limit": _choice(1, 2, 3, 4),
    "idle": _choice(0, LONG),
    "side": _choice(0, 1, 2),
    "all": _choice(0, 1, 2, 3),
    "named": _choice("", 0, 1, 2),
    "told": _choice(""),
    "number": _choice("100000000001", "100000000002", "100000000003"),
    "ids": lambda rng: rng.choice(_LETTERS) * 32,
}
_OF_SCRIPT: dict[tuple[str, str], Callable[[random.Random], str | int]] = {
    ("event_change", "how"): _choice("set", "clear"),
    ("leased_change", "how"): _choice("make", "set", "add", "delete"),
    ("latch_change", "how"): _choice("make", "set up", "down", "delete"),
    ("semaphore_acquire", "how"): _choice("take", "tell"),
    ("semaphore_acquire", "permits"): _choice(0, 1, 2, "all"),
    ("semaphore_change", "how"): _choice("1", "0", "new", "add", "undo", "make", "set", "delete"),
    ("semaphore_change", "permits"): _choice(0, 1, 2),
}


@dataclass(frozen=True)
class _Parameter:
    script: str
    name: str
    repeated: bool

    def argument(self, rng: random.Random) -> str | int:
        make = _OF_SCRIPT.get((self.script, self.name)) or _BY_NAME.get(self.name)
        return make(rng) if make else rng.choice(_LETTERS)

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
        declared: dict[str, tuple[_Parameter, ...]] = {"KEYS": (), "ARGV": ()}
        for table, names in _HEADER.findall(text):
            declared[table] = tuple(
                _Parameter(name, each.strip("#?."), each.endswith("..."))
                for each in names.split(", ")
            )
        return cls(name, declared["KEYS"], declared["ARGV"])

    def call(self, rng: random.Random) -> list[str | int]:
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
    r"(card|forced|group|event)_.*|lock_(acquire|give|query|renew)"
    r"|leased_(renew|query|change)"
)
_SCRIPTS = [_Script.parse(name, text) for name, text in TEXTS.items() if _ALIKE.fullmatch(name)]
_FAMILIES = sorted({script.family for script in _SCRIPTS})


class Twin:
    """The model and a real server, empty at first: both get the same commands and must agree."""

    def __init__(self, server: redis.Redis) -> None:
        self.model = RedisModel(now=time.time)
        self._server: Any = server
        self._server.flushall()
        self._server.script_flush()

    def check(self, *args: str | int) -> object:
        """Execute the same command on both, compare the replies and return the model's."""
        expected, found = self._answer(*args), self._reply(*args)
        assert alike(expected, found), f"{args}: the server says {expected!r}, the model {found!r}"
        return found

    def check_dumps(self) -> None:
        """Compare everything that is stored, deadlines too."""
        expected, found = self._stored(), self.model.dump()
        assert expected.keys() == found.keys()
        for key, stored in expected.items():
            assert alike(stored, found[key]), f"{key}: {stored} on the server, {found[key]} here"

    def _answer(self, *args: str | int) -> object:
        try:
            return told(self._server.execute_command(*args))
        except redis.RedisError as error:
            return told(error)

    def _reply(self, *args: str | int) -> object:
        try:
            if args[0] == "DEL":
                return self.model.remove(str(args[1]))
            _, text, count, *rest = args
            keys = [str(each) for each in rest[: int(count)]]
            return told(self.model.eval(str(text), keys, rest[int(count) :]))
        except ModelError as error:
            return told(error)

    def _stored(self) -> dict[bytes, Stored]:
        pipe = self._server.pipeline(transaction=False)
        keys: list[bytes] = list(self._server.scan_iter())
        for key in keys:
            pipe.type(key).pttl(key)
        facts = pipe.execute()
        kinds, ttls = [kind.decode() for kind in facts[::2]], facts[1::2]
        read = {
            "string": pipe.get,
            "hash": pipe.hgetall,
            "list": lambda key: pipe.lrange(key, 0, -1),
            "zset": lambda key: pipe.zrange(key, 0, -1, withscores=True),
        }
        for key, kind in zip(keys, kinds, strict=True):
            read[kind](key)
        return {
            key: Stored(kind, dict(value) if kind == "zset" else value, None if ttl == -1 else ttl)
            for key, kind, ttl, value in zip(keys, kinds, ttls, pipe.execute(), strict=True)
        }


def told(reply: object) -> object:
    """Return *reply* with errors as the first words of their texts: redis-py cuts the code off."""
    if isinstance(reply, list):
        return [told(item) for item in reply]
    if isinstance(reply, Exception):
        return "error: " + str(reply).partition(" script: ")[0].removeprefix("ERR ")
    return reply


def alike(expected: object, found: object) -> bool:
    """Whether two values are equal but for what may have changed with the time, in milliseconds."""
    if isinstance(expected, dict) and isinstance(found, dict):
        # A key of a zset may be a time, too.
        return alike(sorted(expected.items()), sorted(found.items()))
    if isinstance(expected, bytes) and isinstance(found, bytes) and b" " in expected + found:
        expected, found = expected.split(), found.split()
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        return len(expected) == len(found) and all(map(alike, expected, found))
    if expected == found or type(expected) is not type(found):
        return expected == found
    with contextlib.suppress(TypeError, ValueError):
        first, second = float(expected), float(found)  # type: ignore[arg-type]
        # A number above 1e15 is a time in microseconds.
        near = NEAR_MS * 1000 if min(first, second) > 1e15 else NEAR_MS
        return min(first, second) > near and abs(first - second) < near
    return False


@pytest.fixture(scope="module")
def reference() -> Iterator[redis.Redis]:
    with RedisServer(binaries()["redis-7.0"]) as server, server.client() as client:
        yield client


@pytest.mark.parametrize("family", _FAMILIES)
def test_scripts_behave_on_the_model_as_on_a_real_server(
    reference: redis.Redis, family: str
) -> None:
    """Random conversations get equal replies and leave equal data, and each script gets through."""
    own = [script for script in _SCRIPTS if script.family == family]
    names = set().union(*(script.key_names for script in own))
    company = [script for script in _SCRIPTS if script.key_names & names]
    succeeded: Counter[str] = Counter()
    errors: dict[str, object] = {}
    for seed in range(4):
        rng, twin = random.Random(f"{family}{seed}"), Twin(reference)
        for _ in range(_STEPS):
            if rng.random() < 0.05 and (keys := sorted(twin.model.dump())):
                twin.check("DEL", rng.choice(keys).decode())
            script = rng.choice(rng.choice((own, company)))
            reply = twin.check(*script.call(rng))
            if isinstance(reply, str):
                errors[script.name] = reply
            else:
                succeeded[script.name] += 1
            twin.check_dumps()
    for script in own:
        assert succeeded[script.name], f"{script.name} never succeeds: {errors[script.name]}"
