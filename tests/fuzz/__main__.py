"""Hostile input, a million times: `python -m tests.fuzz [--inputs N] [--seed S] [--short]`.

* *values*: each script's decoder is given replies of any shape.
* *bytes*: connections of both faces read any bytes, whole or in pieces.
* *errors*: what a server's error texts are turned into.
* *arguments*: each script runs on a real server with names and arguments chosen by an attacker.

Whatever comes, the caller is told by an `InterlockError`, and a script touches only its own keys.
A failure names the seed and the input.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
import pkgutil
import random
import socket
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis
from tests.support.again import again
from tests.support.servers import RedisServer

from interlock._core import scripts
from interlock._core.model import names
from interlock._core.model.effects import Eval, Script
from interlock._core.scripts.source import Variants
from interlock._drivers.wrong_type import _TYPES
from interlock._links.connection import Connection
from interlock._links.endpoint import Endpoint
from interlock._links.pipeline import Pipeline
from interlock._links.replies import refusal
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

INPUTS = 1_000_000
SHORT = 20_000
BATCH = 200
"""Commands that are sent to the server at a time."""
SLOW = 1.0
"""Seconds of processor time that such a batch may cost the server, however busy the machine is."""
TEXTS = (
    "", "a", "{", "}", "{}", "{a}", "a{b}c{d}", "*", "[a-z]*", "?", "\x00", "\r\n", "a b", "'; x",
    "\N{SNOWMAN}", "\U0001f512", "-1", "0", "1e308", "nan", "redisson_lock__channel", "a" * 600,
    "$6\r\nFLUSHALL", "')\nredis.call('flushall')--", "%s%n", "../../etc/passwd", "\x7f\x1b[31m",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 7, -(2**63), 2**63 - 1, 2**53, 2**31, 100_000)
ERRORS = (
    "MOVED", "ASK", "MOVED 1", "MOVED x y:z", "ASK 99999999 :", "MOVED 1 h:99999999", "WRONGTYPE",
    "NOSCRIPT", "ERR", "", "READONLY", "-MOVED 7 host:1", "NOPERM script", "BUSY " * 50,
    "@user_script:1: WRONGTYPE", "MOVED 5 :7000", "CROSSSLOT", "MASTERDOWN", "Z" * 900,
)  # fmt: skip


class FoundError(AssertionError):
    """An input that breaks what is promised."""


def value(chance: random.Random, depth: int = 0) -> object:
    kind = chance.randrange(7 if depth < 3 else 5)
    if kind == 0:
        return None
    if kind == 1:
        return chance.choice(NUMBERS)
    if kind == 2:
        return chance.choice(TEXTS).encode()
    if kind == 3:
        return chance.randbytes(chance.randrange(9))
    if kind == 4:
        return chance.randrange(3)
    return [value(chance, depth + 1) for _ in range(chance.randrange(5))]


def encoded(reply: object) -> bytes:
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    if isinstance(reply, bytes):
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    assert isinstance(reply, list)
    return b"*%d\r\n%b" % (len(reply), b"".join(map(encoded, reply)))


def stream(chance: random.Random) -> bytes:
    """Return bytes that begin like replies and go wrong anywhere."""
    whole = bytearray(b"".join(encoded(value(chance)) for _ in range(chance.randrange(1, 4))))
    if chance.random() < 0.3:
        whole = bytearray(chance.choice((b"-", b"+", b":", b"$", b"*", b"%", b">", b"#", b"")))
        whole += chance.choice(ERRORS).encode() + b"\r\n"
    for _ in range(chance.randrange(3)):
        place = chance.randrange(len(whole) + 1)
        whole[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
    return bytes(whole)


def modules() -> Iterator[ModuleType]:
    for part in pkgutil.iter_modules(scripts.__path__):
        yield importlib.import_module(f"{scripts.__name__}.{part.name}")


def constructors() -> dict[str, Callable[..., Eval[object]]]:
    """Return the function that makes each script's call, by name."""
    found = {}
    for module in modules():
        for name, function in inspect.getmembers(module, inspect.isfunction):
            made = str(function.__annotations__.get("return"))
            if function.__module__ == module.__name__ and made.startswith("Eval["):
                found[name] = function
    return found


def argument(name: str, hint: object, chance: random.Random) -> object:
    if name in ("publish", "channel"):
        # Most constructors take the queue's key from a channel.
        channels = (names.lock_channel(chance.choice(TEXTS)), chance.choice(TEXTS))
        return chance.choice(("PUBLISH", "") if name == "publish" else channels)
    pools: dict[object, tuple[object, ...]] = {
        "str": TEXTS,
        "bool": (False, True),
        "float": (0.0, 0.001, 1.0, 1e6, chance.random()),
        "int": (0, 1, 2, 3, 1000),
        "int | None": (None, 0, 1, 1000),
    }
    if hint in pools:
        return chance.choice(pools[hint])
    return tuple(chance.choice(TEXTS) for _ in range(chance.randrange(1, 4)))


def call_of(function: Callable[..., Eval[object]], chance: random.Random) -> Eval[object] | None:
    """Return a call with hostile arguments; None for what the constructor refuses."""
    hints = function.__annotations__  # as text
    given = {
        name: argument(name, hints.get(name), chance)
        for name in inspect.signature(function).parameters
        if name != "deadline"
    }
    with suppress(ValueError, IndexError):
        return function(**given)
    return None


def fuzz_values(chance: random.Random, inputs: int) -> None:
    found: list[Script[object]] = [
        each["PUBLISH"] if isinstance(each, Variants) else each
        for module in modules()
        for each in vars(module).values()
        if isinstance(each, Script | Variants)
    ]
    found.append(_TYPES)
    for _ in range(inputs):
        script, reply = chance.choice(found), value(chance)
        try:
            script.decode(reply)
        except InterlockError:
            continue
        except Exception as error:
            raise FoundError(f"{script.name} and the reply {reply!r}: {error!r}") from error


def fuzz_errors(chance: random.Random, inputs: int) -> None:
    """Give any error text to what judges it."""
    for _ in range(inputs):
        text = chance.choice(ERRORS) + chance.choice(("", " ", " 1 h:1", *TEXTS))
        try:
            error = refusal(text, None, "h:1", moves=chance.random() < 0.5)
        except Exception as error:
            raise FoundError(f"the error {text!r}: {error!r}") from error
        assert isinstance(error, InterlockError)


class _Endpoint:
    """Gives a connection to the other end of a socket pair."""

    where, moves, served, login, login_version = "fuzz", False, True, None, 0

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def connect(self, timeout: float) -> Any:
        del timeout
        return self

    def disconnect(self) -> None:
        self.sock.close()


def fuzz_connection(chance: random.Random, inputs: int) -> None:
    script: Script[object] = Script("fuzz", "return 1", lambda reply: reply)
    for _ in range(inputs):
        ours, theirs = socket.socketpair()
        data = stream(chance)
        theirs.sendall(data)
        theirs.close()
        connection = Connection(_Endpoint(ours), 1.0)
        try:
            connection.batch([Eval(script, ("k",), ())], 1.0)
        except InterlockError:
            pass
        except Exception as error:
            raise FoundError(f"a connection and {data!r}: {error!r}") from error
        finally:
            connection.close()


class _Transport(asyncio.Transport):
    def abort(self) -> None:
        """Do nothing."""

    def write(self, data: object) -> None:
        """Do nothing."""


async def fuzz_pipeline(chance: random.Random, inputs: int) -> None:
    endpoint = Endpoint.from_url("redis://localhost:1")
    for _ in range(inputs):
        pipeline = Pipeline(endpoint, 60.0)
        pipeline.connection_made(_Transport())
        slots = [pipeline.send(b"x") for _ in range(chance.randrange(3))]
        data = stream(chance)
        cut = chance.randrange(len(data) + 1)
        try:
            for part in (data[:cut], data[cut:]):
                pipeline.get_buffer(-1)[: len(part)] = part
                pipeline.buffer_updated(len(part))
            pipeline.connection_lost(None)
        except Exception as error:
            raise FoundError(f"a pipeline and {data!r}: {error!r}") from error
        for slot in slots:
            assert slot.done()
            slot.exception()


def _processor_time(client: redis.Redis) -> float:
    used: Any = client.info("cpu")
    return used["used_cpu_user"] + used["used_cpu_sys"]


def fuzz_arguments(chance: random.Random, inputs: int) -> None:
    """Run each script with hostile arguments, and see that it touches its own keys only."""
    functions = list(constructors().values())
    with RedisServer() as server, server.client() as client:
        client.set("bystander", "untouched")
        done = 0
        while done < inputs:
            calls = [call_of(chance.choice(functions), chance) for _ in range(BATCH)]
            batch = [call for call in calls if call is not None]
            own = {key.encode() for call in batch for key in call.keys}
            pipe, before = client.pipeline(transaction=False), _processor_time(client)
            for call in batch:
                pipe.eval(call.script.text, len(call.keys), *call.keys, *call.args)
            replies = pipe.execute(raise_on_error=False)
            if (took := _processor_time(client) - before) > SLOW:
                raise FoundError(f"{took:.1f} s for {[call.script.name for call in batch]}")
            for call, reply in zip(batch, replies, strict=True):
                _check_reply(call, reply)
            found = set(client.keys("*"))
            if strangers := found - own - {b"bystander"}:
                raise FoundError(f"keys of nobody: {strangers}")
            if client.get("bystander") != b"untouched":
                raise FoundError("another key was written to")
            client.delete(*found - {b"bystander"}, "none")
            done += len(batch)


def _check_reply(call: Eval[object], reply: object) -> None:
    if isinstance(reply, redis.RedisError):
        assert isinstance(refusal(str(reply), call, "h:1"), InterlockError)
        return
    try:
        call.script.decode(reply)
    except InterlockError:
        return  # keys of different roles met in one name, which is told
    except Exception as error:
        raise FoundError(f"{call.script.name}{call.args} answers {reply!r}: {error!r}") from error


def parts(inputs: int) -> Iterator[tuple[str, Callable[[random.Random], None], int]]:
    """Yield the name, the function and the inputs of each part; together there are *inputs*."""
    yield "values", lambda chance: fuzz_values(chance, inputs // 2), inputs // 2
    yield "errors", lambda chance: fuzz_errors(chance, inputs // 10), inputs // 10
    yield "connection", lambda chance: fuzz_connection(chance, inputs // 10), inputs // 10
    yield (
        "pipeline",
        lambda chance: asyncio.run(fuzz_pipeline(chance, inputs // 10)),
        inputs // 10,
    )
    yield "arguments", lambda chance: fuzz_arguments(chance, inputs // 5), inputs // 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--short", action="store_true", help=f"{SHORT} inputs")
    options = parser.parse_args()
    inputs = SHORT if options.short else options.inputs
    for name, fuzz, count in parts(inputs):
        began = time.monotonic()
        try:
            fuzz(random.Random(f"{name} {options.seed}"))
        except FoundError as error:
            print(f"{name}, seed {options.seed}: {error}")
            print(again("tests.fuzz", seed=options.seed, inputs=inputs))
            return 1
        print(f"{name:12} {count:8} inputs in {time.monotonic() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
