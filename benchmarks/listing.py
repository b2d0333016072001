"""How long `interlock list` takes: ``python -m benchmarks.listing [--short] [--plain]``.

A server of its own is filled with locks and cards as Python clients write them. The command is
timed to its first line and to its end. Redis' own latency monitor tells whether it was blocked.
The exit status is 1 unless all of `LIMITS` are kept in each round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

import redis
from tests.support.server import RedisServer

from interlock._core.insight.card import CARD, FORMAT, INDEX

if TYPE_CHECKING:
    from collections.abc import Sequence

LEASE = 3600
"""Seconds: nothing ends meanwhile."""
LIMITS = {"first line, s": 0.5, "whole list, s": 5.0, "memory, MB": 150.0}
"""The most that each figure may be; a list must not need more memory for more locks."""
THRESHOLD = 10
"""Milliseconds from which the latency monitor notes an event."""


def fill(server: redis.Redis, clients: int, holds: int) -> None:
    """Write *holds* locks of each of *clients*, and their cards."""
    now = time.time() * 1000
    for number in range(clients):
        client_id = str(uuid.uuid4())
        about = {
            "format": FORMAT,
            "number": 1,
            "period": 1000.0,
            "holds": holds,
            "host": f"host-{number % 100}",
            "pid": number,
            "program": "orders-web",
        }
        card: dict[Any, Any] = {"client": json.dumps(about), "written": now, "number": 1}
        with server.pipeline(transaction=False) as pipe:
            for hold in range(holds):
                name, holder = f"orders:{number}:{hold}", f"{client_id}:{hold}"
                pipe.hset(name, holder, 1)
                pipe.expire(name, LEASE)
                entry = {"age": 60.5, "owner": hold, "lease": 30.0, "renewed": False}
                card[f"h {holder} {name}"] = json.dumps(entry | {"thread": f"thread {hold}"})
            pipe.hset(CARD.format(client_id), mapping=card)
            pipe.zadd(INDEX, {client_id: now + LEASE * 1000})
            pipe.execute()


def measure(url: str, *options: str) -> dict[str, float]:
    """Run the command with *options* once; return its figures."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "interlock", "list", *options, "--url", url], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        _ = process.stdout.readline()
        first = time.perf_counter() - began
        lines = sum(1 for _ in process.stdout)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "lines": lines,
        "first line, s": first,
        "whole list, s": time.perf_counter() - began,
        "processor time, s": usage.ru_utime + usage.ru_stime,
        "memory, MB": usage.ru_maxrss / 1024,
    }


def exceeded(figures: dict[str, float], blocked: object) -> list[str]:
    """Return which limits *figures* exceed, in words; *blocked* is what the monitor noted."""
    found = [
        f"{name}: {figures[name]:.2f} is more than {limit:g}"
        for name, limit in LIMITS.items()
        if figures[name] > limit
    ]
    return [*found, f"the server was blocked: {blocked}"] if blocked else found


def main(words: Sequence[str] | None = None) -> int:
    """Print the figures; 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="a tenth of the clients, once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plain", action="store_true", help="measure `interlock list --plain`")
    given = parser.parse_args(words)
    with RedisServer() as started:
        server: Any = redis.Redis.from_url(started.url())
        fill(server, 1000 if given.short else 10_000, 10)
        server.config_set("latency-monitor-threshold", THRESHOLD)
        server.config_set("slowlog-log-slower-than", 1000)
        server.execute_command("LATENCY", "RESET")
        server.slowlog_reset()
        worst: dict[str, float] = {}
        for _ in range(1 if given.short else given.rounds):
            figures = measure(started.url(), *(["--plain"] if given.plain else []))
            print(", ".join(f"{name}: {value:.2f}" for name, value in figures.items()))
            worst = {name: max(value, worst.get(name, 0)) for name, value in figures.items()}
        blocked = server.execute_command("LATENCY", "LATEST")
        slowest = max((entry["duration"] for entry in server.slowlog_get(128)), default=0)
        print(f"commands above 1 ms: {server.slowlog_len()}, the slowest {slowest / 1000:.2f} ms")
        print(f"latency monitor, from {THRESHOLD} ms: {blocked or 'nothing'}")
    failures = exceeded(worst, blocked)
    for failure in failures:
        print(f"too much: {failure}")
    if not failures:
        print(f"kept: {', '.join(f'{name} <= {limit:g}' for name, limit in LIMITS.items())}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
