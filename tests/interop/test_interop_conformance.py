"""The conformance program: Redisson and our client keep to Redisson's wire."""

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
    from tests.support.servers import RedisServer

PEER = shlex.join([sys.executable, str(Path(__file__).with_name("peer.py")), "sync"])


@pytest.mark.promise("redisson")
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
