"""`interlock exporter`: the metrics of a fleet."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.monitoring.serving import served
from tests.support.patience import GIVE_UP, wait_until

import interlock
from interlock import Options
from interlock._links.urls import open_url
from interlock.cli import main
from interlock.exporter import FAMILIES, Fleet

if TYPE_CHECKING:
    from tests.support.servers import RedisServer

    from interlock import Client


def test_the_fleet_is_counted(client: Client, redis_url: str) -> None:
    """Locks of all kinds are counted by kind, with those who wait, and no name is told."""
    registry = CollectorRegistry()
    registry.register(Fleet(*open_url(redis_url, Options()), max_age=0))
    with client.lock("secret:1"), client.lock("secret:2"), client.fenced_lock("secret:3"):
        text = generate_latest(registry).decode()
    assert 'interlock_locks{kind="lock"} 2.0' in text or 'interlock_locks{kind="lock"} 3.0' in text
    assert "interlock_exporter_up 1.0" in text
    assert "interlock_clients 1.0" in text
    assert "secret" not in text
    for name in FAMILIES:
        assert name in text


def test_a_server_that_is_gone_is_told(fresh_server: RedisServer) -> None:
    """When the server goes away the exporter says so, and counts again when it is back."""
    registry = CollectorRegistry()
    registry.register(Fleet(*open_url(fresh_server.url(), Options()), max_age=0))
    assert b"interlock_exporter_up 1.0" in generate_latest(registry)
    fresh_server.kill()
    down = generate_latest(registry)
    assert b"interlock_exporter_up 0.0" in down
    assert b"interlock_locks{" not in down
    fresh_server.start()
    wait_until(
        lambda: b"interlock_exporter_up 1.0" in generate_latest(registry), GIVE_UP, "it is back"
    )


def test_the_command_serves_and_ends(redis_url: str) -> None:
    """The command serves /metrics, and ends with status 0 at SIGTERM."""
    with (
        interlock.connect(redis_url) as client,
        client.lock("orders"),
        served("exporter", "--listen", "127.0.0.1:0", "--url", redis_url) as url,
        urllib.request.urlopen(url, timeout=GIVE_UP) as answer,
    ):
        assert b'interlock_locks{kind="lock"} 1.0' in answer.read()


@pytest.mark.parametrize("listen", ["host:port", ":70000", ""])
def test_an_address_that_is_none_is_refused(
    listen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad address is a usage error, in one line."""
    assert main(["exporter", "--listen", listen, "--url", "redis://127.0.0.1:1"]) == 64
    err = capsys.readouterr().err
    assert "listen" in err
    assert err.count("\n") == 1
