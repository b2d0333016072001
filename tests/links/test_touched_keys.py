"""On a real server, each script touches only keys that its call declared.

MONITOR shows each call, and after it the commands that its script runs. The server itself tells
which of their words are keys.
"""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

import pytest
import redis
from tests.support.doings import DOINGS, condition_of, two_clients
from tests.support.scripts import SENT

import interlock
from interlock.inspection import service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import RedisServer

_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
_END = "the end of the test"
_KEYLESS = {"publish", "spublish", "pubsub", "time", "cluster"}
READING = ("card_read", "lock_info")
RARE = {
    # Of operators, of tickets, and of calls that were interrupted.
    *("card_holder", "forced_note_read", "forced_note_write", "lock_give")
}
"""Scripts that the objects may do without here."""
TURNS = 10
PATIENCE = 20.0
"""Seconds for a command: many threads wait for this processor, and the server is told on."""


def crowd(clients: list[interlock.Client]) -> None:
    def take_turns(client: interlock.Client) -> None:
        both = client.read_write_lock("locks:crowd")
        for _ in range(TURNS):
            with both.read:
                pass
            both.write.acquire()
            with both.read:
                both.write.release()
            with client.lock("locks:crowd too"):
                pass

    with ThreadPoolExecutor(2 * len(clients)) as threads:
        for done in [threads.submit(take_turns, client) for client in 2 * clients]:
            done.result()


def locks_of(client: interlock.Client) -> list[interlock.Lock]:
    """Return locks of *client* whose conditions have other scripts than a plain lock's."""
    both = client.read_write_lock("locks:of a condition")
    others = (client.fenced_lock, client.spin_lock)
    return [both.write, *[each(f"locks:{each.__name__}") for each in others]]


class Overheard:
    """What a server does meanwhile, as MONITOR tells it.

    Args:
        server: the server.
    """

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.lines: list[str] = []

    def __enter__(self) -> Self:
        self._connection = redis.Connection(host="127.0.0.1", port=self._server.port)
        self._connection.send_command("MONITOR")
        assert self._connection.read_response() == b"OK"
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.execute("ECHO", _END)
        self._thread.join()
        self._connection.disconnect()

    def _listen(self) -> None:
        while _END not in (line := self._connection.read_response().decode()):
            self.lines.append(line)

    def calls(self) -> Iterator[tuple[list[str], list[list[str]]]]:
        """Yield each call of a script, and the commands that the script has run."""
        call, inner = list[str](), list[list[str]]()
        for line in self.lines:
            words = _WORD.findall(line)
            if " lua] " in line:
                inner.append(words)
                continue
            if call:
                yield call, inner
            call = words if words[0].lower() in ("eval", "evalsha") else []
            inner = []
        if call:
            yield call, inner


def loaded(server: RedisServer) -> dict[str, str]:
    """Load each script into *server*; return its name by its digest."""
    texts = {stem: set(variants.values()) for stem, variants in SENT.items()}
    texts |= {stem: {service.load(stem).text} for stem in READING}
    with server.client() as client:
        return {client.script_load(text): stem for stem in texts for text in texts[stem]}


def keys_of(server: RedisServer, commands: list[list[str]]) -> list[list[str]]:
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for words in commands:
            pipe.execute_command("COMMAND GETKEYS", *words)
        return pipe.execute()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("version", ["redis-7.0", "valkey-9.1"])
def test_no_script_touches_a_key_that_its_call_did_not_declare(
    version: str, server_of_version: Callable[[str], RedisServer]
) -> None:
    """Two clients contend for each object, operators look on, and all keys are declared."""
    server = server_of_version(version)
    server.execute("FLUSHALL")
    stems = loaded(server)

    def do(kind: str) -> None:
        with two_clients(server.url(), command_timeout=PATIENCE) as (client, other):
            DOINGS[kind](client, other)
            if kind == "read_write_lock":
                crowd([client, other])
            if kind == "condition":
                for lock, theirs in zip(locks_of(client), locks_of(other), strict=True):
                    condition_of(client.condition(lock), other.condition(theirs))

    with Overheard(server) as overheard:
        done = threading.Event()
        with (
            ThreadPoolExecutor(len(DOINGS) + 1) as threads,
            interlock.connect(server.url(), command_timeout=PATIENCE) as client,
        ):

            def look_on() -> None:
                while not done.is_set():
                    for lock in client.locks():
                        client.describe(lock.name)

            looking = threads.submit(look_on)
            doing = [threads.submit(do, kind) for kind in DOINGS]
            try:
                for each in doing:
                    each.result()
            finally:
                done.set()
            looking.result()
    touched: set[str] = set()
    inner = [
        (stems.get(call[1], call[1]), call[3 : 3 + int(call[2])], words)
        for call, commands in overheard.calls()
        for words in commands
        if words[0].lower() not in _KEYLESS
    ]
    strangers: set[tuple[str, str]] = set()
    keys_of_all = keys_of(server, [words for _, _, words in inner])
    for (stem, declared, words), keys in zip(inner, keys_of_all, strict=True):
        touched.add(stem)
        if not {*declared}.issuperset(keys):
            strangers.add((stem, " ".join(words)))
    assert strangers == set()
    assert {*SENT, *READING} - touched <= RARE
