"""`interlock doctor` as its users run it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from tests.cli.cli_process import ENVIRON
from tests.support.address import free_port
from tests.support.program import run
from tests.support.servers import RedisServer

from interlock._links.resp import PARSER
from interlock.check.try_out import SCENES

if TYPE_CHECKING:
    from collections.abc import Iterator


def doctor(*arguments: str, **environ: str) -> tuple[int, str, str]:
    words = (sys.executable, "-W", "error", "-m", "interlock", "doctor", *arguments)
    done = run(*words, env={**ENVIRON, **environ})
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def durable() -> Iterator[RedisServer]:
    with RedisServer(appendonly=True, config={"appendfsync": "always"}) as server:
        yield server


def test_a_fit_server_gives_0(durable: RedisServer) -> None:
    """Nothing to worry about is status 0; the line for the ACL comes last."""
    status, out, err = doctor("--url", durable.url())
    assert (status, err) == (0, "")
    assert f"127.0.0.1:{durable.port}" in out
    assert out.splitlines()[-1].startswith("user app on >secret resetkeys ~* ")


def test_an_error_gives_1() -> None:
    """An error is status 1, and the output says what to do."""
    with RedisServer(config={"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}) as server:
        status, out, _ = doctor("--url", server.url())
    assert status == 1
    assert "-> CONFIG SET maxmemory-policy noeviction" in out


def test_everything_as_json(durable: RedisServer) -> None:
    """With --json the output is one object with every server, finding and the line for the ACL."""
    status, out, _ = doctor(
        *("--json", "--url", durable.url(), "--url", durable.url(1)),
        *("--for", "semaphore", "--for", "lock", "--names", "shop:*"),
    )
    assert status == 0
    told = json.loads(out)
    assert told["worst"] == "ok"
    assert told["program"].endswith(f"parsed in {PARSER}")
    assert told["program"].endswith(f"the GIL; replies are parsed in {PARSER}")
    assert len(told["servers"]) == 2
    for server in told["servers"]:
        assert server["reached"] is True
        assert {"check", "severity", "found", "advice"} == set(server["findings"][0])
    assert "~redisson_*{shop:*" in told["acl"]


def test_two_clients_try_the_server(durable: RedisServer) -> None:
    """With --try each scene has a line behind those of the server, and one name is not tried."""
    url = durable.url()
    status, out, err = doctor("--try", "--url", url)
    assert (status, err) == (0, ""), out
    [at] = [at for at, line in enumerate(out.splitlines()) if line.startswith("two clients of ")]
    scenes = [line.split()[:2] for line in out.splitlines()[at + 1 : at + 6]]
    assert scenes == [["ok", scene] for scene in SCENES]
    status, _, err = doctor("--try", "--url", url, "--names", "orders")
    assert (status, "end 'orders' with *" in err) == (64, True)


def test_a_server_that_cannot_be_asked_gives_69(durable: RedisServer) -> None:
    """One server that is not there is status 69; what the others are like is told all the same."""
    nobody = f"redis://127.0.0.1:{free_port()}"
    status, out, _ = doctor("--json", "--url", nobody, "--url", durable.url())
    assert status == 69
    told = json.loads(out)
    assert [server["reached"] for server in told["servers"]] == [False, True]
    assert "cannot connect" in told["servers"][0]["findings"][0]["found"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--url", "http://x"), "must start with one of"),
        (("--for", "mutex"), "mutex"),
        (("--names", "a*b"), "a*b"),
        (("--", "true"), "unknown arguments: "),
        (("NAME",), "unknown arguments: NAME"),
    ],
)
def test_usage_that_cannot_be_gives_64(arguments: tuple[str, ...], says: str) -> None:
    """Arguments that cannot be understood give status 64 and one line on stderr."""
    status, out, err = doctor(*arguments)
    assert (status, out) == (64, "")
    assert err.startswith("interlock: ")
    assert says in err
    assert "goes behind" not in err
