"""The console with many open tabs."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from tests.monitoring import tabs
from tests.monitoring.serving import ask, served
from tests.support.patience import GIVE_UP

from interlock.console.connections import MOST


async def test_a_hundred_tabs_show_a_new_lock(redis_url: str) -> None:
    """A hundred open tabs all show a new lock."""
    with served(redis_url) as url:
        assert len(await tabs.delays(url, redis_url)) == tabs.TABS


def test_silent_connections_make_room(redis_url: str) -> None:
    """Connections that send nothing take no room from those who ask."""
    with served(redis_url) as url:
        host, port = url.removeprefix("http://").strip("/").split(":")
        with ExitStack() as stack:
            for _ in range(MOST + 20):
                stack.enter_context(socket.create_connection((host, int(port)), GIVE_UP))
            assert ask(url).status == 200


def test_a_form_without_an_end_delays_no_end(redis_url: str) -> None:
    """A console whose client never sends the rest of a form ends all the same."""
    with ExitStack() as stack, served(redis_url, allow_release=True) as url:
        host, port = url.removeprefix("http://").strip("/").split(":")
        sock = stack.enter_context(socket.create_connection((host, int(port)), GIVE_UP))
        lines = [
            "POST /release HTTP/1.1",
            f"Host: {host}:{port}",
            f"Origin: http://{host}:{port}",
            "Content-Length: 100",
        ]
        sock.sendall("\r\n".join([*lines, "", "name="]).encode())
        assert ask(url).status == 200
