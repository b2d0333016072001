"""The conformance program: drivers that keep to Redisson's wire, depart from it, or break down."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.interop.conformance import main
from tests.interop.java import NEW, classpath
from tests.interop.sequences import SEQUENCES

if TYPE_CHECKING:
    import redis
    from tests.support.servers import RedisServer

PEER = shlex.join([sys.executable, str(Path(__file__).with_name("peer.py")), "sync"])
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


def test_redisson_conforms(need_java: None) -> None:
    """Java's Redisson departs nowhere from what was recorded of it."""
    driver = shlex.join(["java", "-Xmx256m", "-cp", classpath(NEW), "interop.Agent"])
    assert main([driver, "--only", "lock", "--only", "fair"]) == 0


def test_a_client_that_conforms_on_every_server(
    any_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """On each version of Redis and Valkey, our client plays the whole catalogue as Redisson did."""
    assert main([PEER, "--url", any_server.url()]) == 0
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert {row.split("|")[1].strip() for row in rows} == {*SEQUENCES}
    assert all(row.endswith("| as Redisson |") for row in rows)


def test_a_client_that_departs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], redis_url: str, redis_client: redis.Redis
) -> None:
    """A lock that is a string departs at once; what a client does not have is told as that."""
    (tmp_path / "naive.py").write_text(NAIVE)
    command = shlex.join([sys.executable, str(tmp_path / "naive.py")])
    assert main([command, "--url", redis_url, "--only", "lock", "--only", "fair"]) == 1
    printed = capsys.readouterr().out
    assert "| lock | 2 | departs |" in printed
    assert "| fair | 0 | not supported |" in printed
    assert "lock as 'orders', after t1 acquire lock {'lease': 60}: keys" in printed
    assert 'found  {"orders": {"type": "string"' in printed
    assert not redis_client.dbsize()


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        ("", "the driver is empty"),
        ("/no/such/program", "cannot be started"),
        ("true", "has ended with exit status 0"),
        ("sh -c 'exit 3'", "has ended with exit status 3"),
        ("sh -c 'kill -9 $$'", "has ended by signal 9"),
        ("sh -c 'exec >&-; sleep 3'", "has ended its output, but not itself"),
        ("cat", "has no 'value'"),
        ("echo hello", "is no answer"),
        (PEER, "would be lost"),
    ],
)
def test_trouble(
    driver: str,
    words: str,
    redis_url: str,
    redis_client: redis.Redis,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A driver that breaks down, and a database in use, end the program and lose no data."""
    if driver == PEER:
        redis_client.set("precious", 1)
    with pytest.raises(SystemExit) as ended:
        main([driver, "--url", redis_url])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert redis_client.exists("precious") == (driver == PEER)
