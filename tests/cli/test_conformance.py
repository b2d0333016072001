"""`interlock conformance`: drivers that keep to Redisson's wire, depart from it, or break down."""

from __future__ import annotations

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.interop.sequences import SEQUENCES

from interlock.cli import main

if TYPE_CHECKING:
    import redis
    from tests.support.servers import RedisServer

ROOT = Path(__file__).resolve().parents[2]
PEER = shlex.join([sys.executable, str(ROOT / "tests/interop/peer.py"), "sync"])
NAIVE = """
import json, sys, redis
for line in sys.stdin:
    call = json.loads(line)
    reply = {"id": call["id"], "owner": call["thread"].replace(" ", "-"), "value": None}
    if call["do"] == "connect":
        store, reply["value"] = redis.Redis.from_url(call["url"]), "me"
    elif call["do"] != "sleep" and call["kind"] != "lock":
        reply["error"] = "Unsupported"
    elif call["do"] == "acquire":
        reply["value"] = bool(store.set(call["name"], "me", nx=True, ex=60))
    elif call["do"] == "release":
        store.delete(call["name"])
    print(json.dumps(reply), flush=True)
"""


def run(*arguments: str) -> int:
    """Run the command; return its exit status."""
    return main(["conformance", *arguments], {})


def test_a_client_that_conforms(capsys: pytest.CaptureFixture[str]) -> None:
    """Our own client plays the sequences as Redisson does, on a server that the command starts."""
    assert run("--client", PEER, "--only", "lock", "--only", "leased_semaphore") == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[2:] == ["| lock | 24 | as Redisson |", "| leased_semaphore | 30 | as Redisson |"]


def test_a_client_that_departs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], redis_url: str, redis_client: redis.Redis
) -> None:
    """A lock that is a string departs at once; what a client does not have is told as that."""
    (tmp_path / "naive.py").write_text(NAIVE)
    command = shlex.join([sys.executable, str(tmp_path / "naive.py")])
    only = ("--only", "lock", "--only", "fair")
    assert run("--client", command, "--url", redis_url, *only, "--json") == 1
    lock, _, fair, _ = map(json.loads, capsys.readouterr().out.splitlines())
    (departure,) = lock["departures"]
    assert (departure["step"], departure["part"]) == ("t1 acquire lock {'lease': 60}", "keys")
    assert departure["found"]["orders"]["type"] == "string"
    assert (fair["unsupported"], fair["departures"]) == (True, [])
    assert not redis_client.dbsize()


@pytest.mark.parametrize(
    ("client", "status", "words"),
    [
        ("", 64, "--client is empty"),
        ("/no/such/program", 69, "cannot be started"),
        ("true", 69, "has ended with exit status 0"),
        ("sh -c 'exit 3'", 69, "has ended with exit status 3"),
        ("sh -c 'kill -9 $$'", 69, "has ended by signal 9"),
        ("sh -c 'exec >&-; sleep 3'", 69, "has ended its output, but not itself"),
        ("cat", 69, "has no 'value'"),
        ("echo hello", 69, "is no answer"),
        (PEER, 64, "would be lost"),
    ],
)
def test_trouble(
    client: str,
    status: int,
    words: str,
    redis_url: str,
    redis_client: redis.Redis,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A client that breaks down, and a database in use, end the command and lose no data."""
    redis_client.set("precious", 1)
    if client != PEER:
        redis_client.flushdb()
    assert run("--client", client, "--url", redis_url) == status
    assert words in capsys.readouterr().err
    assert redis_client.exists("precious") == (client == PEER)


def test_the_vectors_are_those_that_were_recorded() -> None:
    """The kit ships what the tests of interoperation have recorded of Redisson."""
    spec = importlib.util.spec_from_file_location("vectors", ROOT / "tools/make_vectors.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.FILE.read_text() == tool.text(), "run: python tools/make_vectors.py"


def test_a_client_that_conforms_on_every_server(
    any_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """On each version of Redis and Valkey, our client plays the whole catalogue as Redisson did."""
    assert run("--client", PEER, "--url", any_server.url()) == 0
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert {row.split("|")[1].strip() for row in rows} == {*SEQUENCES}
    assert all(row.endswith("| as Redisson |") for row in rows)
