"""Listening in on what a semaphore says to its server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis
    from tests.support.servers import RedisServer

CHANNEL = "redisson_sc:{name}"


async def commands(server: RedisServer, client: redis.Redis, act: Callable[[], Any]) -> list[str]:
    """Return the server's commands during *act*, without those of latches and without reads."""
    with server.client() as watcher, watcher.monitor() as monitor:
        await act()
        client.echo("the end")
        heard: list[str] = []
        while not (line := monitor.next_command()["command"]).endswith("the end"):
            heard.append(line)
    reading = ("get", "exists", "pttl", "time", "zscore", "zcard", "zrange", "evalsha", "client")
    return [
        line.lower()
        for line in heard
        if line.split()[0].lower() not in reading
        and "redisson_unlock_latch" not in line
        and "interlock_latch_" not in line
    ]
