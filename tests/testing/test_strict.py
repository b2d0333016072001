"""A server that refuses what a service refuses: the scripts pass, and the objects work.

No service was asked: each refuses what its own documents say (docs/reference/services.md).
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from fakeredis._helpers import SimpleError
from fakeredis._socket._base import BaseFakeSocket
from fakeredis.commands_mixins.scripting_mixin import ScriptingCommandsMixin
from tests.objects.awaited import take_turn
from tests.support.doings import do_everything
from tests.support.patience import wait_until
from tests.support.scripts import SENT

import interlock
import interlock.asyncio
from interlock._links.replies import refusal
from interlock.inspection import service
from interlock.testing import fake

if TYPE_CHECKING:
    from collections.abc import Iterator

SOON = 10.0
LONG = 250.0
"""Seconds: nobody looks by himself during the test."""
TEXTS = SENT | {stem: {"": service.load(stem).text} for stem in ("lock_info", "card_read")}
KEY = r"\s*,\s*KEYS\[\d+\]\s*"
LITERAL = re.compile(
    r"'(PUBLISH|SPUBLISH|PUBSUB|TIME|CLUSTER|INFO)'"
    rf"|'(DEL|EXISTS)'({KEY})+\)"
    rf"|'(?!DEL|EXISTS)\w+'{KEY}[,)]",
    re.IGNORECASE,
)
"""A call with the command and each key spelled out, from its first word on."""
MESSAGES = frozenset({"PUBLISH", "SPUBLISH", "PUBSUB"})
MODES = {
    "bare": (MESSAGES | {"TIME", "CLUSTER"}, frozenset({"CONFIG", "WAIT", "ACL", "COMMAND"})),
    "silent": (MESSAGES, frozenset({"PUBLISH", "SPUBLISH"})),
}
"""What scripts may not call, and what clients may not send.

The first one refuses everything that some service refuses and locks can do without, the second one
has no messages at all.
"""


@contextmanager
def refusing(mode: str) -> Iterator[str]:
    in_scripts, of_clients = MODES[mode]
    call, find = ScriptingCommandsMixin._lua_redis_call, BaseFakeSocket._name_to_func

    def checked_call(self: Any, lua: Any, known: Any, op: bytes, *args: Any) -> Any:
        if op.decode().upper() in in_scripts:
            raise SimpleError("ERR This Redis command is not allowed from script")
        return call(self, lua, known, op, *args)

    def checked_find(self: Any, name: str) -> Any:
        if name.partition(" ")[0].upper() in of_clients:
            raise SimpleError(f"ERR unknown command '{name}'")
        return find(self, name)

    with pytest.MonkeyPatch.context() as patched, fake() as server:
        patched.setattr(ScriptingCommandsMixin, "_lua_redis_call", checked_call)
        patched.setattr(BaseFakeSocket, "_name_to_func", checked_find)
        yield server.url


@pytest.mark.parametrize("stem", TEXTS)
def test_each_call_in_a_script_is_literal(stem: str) -> None:
    """Every command is a literal, and every key ``KEYS[n]``, in all that a server is sent.

    So each script touches only the keys that it is given, which services want to know before.
    """
    for text in TEXTS[stem].values():
        for call in re.finditer(r"\bredis\.p?call\s*\(", text):
            assert LITERAL.match(text, call.end()), text[call.start() : call.end() + 60]


@pytest.mark.parametrize(
    ("mode", "pubsub"), [*((mode, "auto") for mode in MODES), ("bare", "off")], ids=str
)
def test_every_object_does_everything(mode: str, pubsub: str, patient: None) -> None:
    """Each object does everything that it can, while two clients contend."""
    with refusing(mode) as url:
        do_everything(lambda _kind: url, pubsub=pubsub)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("ERR bad lua script for redis cluster, all the keys", "set script_check_enable to 0"),
        ("ERR script tried accessing undeclared key", "--lock_on_hashtags"),
        ("ERR This Redis command is not allowed from script", "does not permit scripts to call"),
        ("ERR Unknown Redis command called from script", "does not permit scripts to call"),
        ("ERR unknown command 'EVALSHA'", "an OCI Cache"),
        ("ERR Lua scripting support disabled", "an OCI Cache"),
        ("ERR Could not find scripting engine 'lua'", "an OCI Cache"),
    ],
)
def test_a_refusal_is_told_with_the_rule_and_the_setting(error: str, says: str) -> None:
    """A service that refuses a script, or all, gets an error that says why, and what to set."""
    assert says in str(refusal(error, None, "db:6379"))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kinds", [("lock", "write"), ("semaphore", "fair_lock")], ids="-".join)
def test_waiters_poll_where_scripts_send_no_messages(
    mode: str, kinds: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Without PUBLISH in scripts a release works, waiters look often, and log it.

    So does one that began to wait before the server had refused. A client logs it once.
    """
    options: Any = {"lease": LONG}
    with refusing(mode) as url, ExitStack() as stack:
        ours, theirs = (stack.enter_context(interlock.connect(url, **options)) for _ in range(2))
        for name, kind in zip(("one", "two"), kinds, strict=True):
            lock = made(kind, ours, name)
            lock.acquire()
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(take_turn, made(kind, theirs, name), SOON)
                wait_until(lambda: "refuses PUBLISH" in caplog.text, SOON, "it was told")
                wait_until(lambda: polls(theirs), SOON, "it polls")
                lock.release()
                assert waiting.result(SOON)
    lacks = [record for record in caplog.records if "PUBLISH" in record.getMessage()]
    assert [record.__dict__["event"] for record in lacks] == ["messages.refused"]


def made(kind: str, client: interlock.Client, name: str = "it") -> Any:
    """Return the object of *kind* with *name*; of a read/write lock the writer's."""
    if kind == "semaphore":
        return client.semaphore(name, 1)
    if kind == "write":
        return client.read_write_lock(name).write
    return getattr(client, kind)(name)


def polls(client: interlock.Client) -> bool:
    places = client._driver.session.queues.places
    return any(hold.place is not None and hold.place.line.deaf for hold in list(places.values()))
