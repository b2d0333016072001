"""Count what cards cost: `python -m tests.operations.card_cost [--clients N] [--locks N]`.

Real clients in one process hold locks of a real server for some rounds of renewal. The server
counts: each card is one ZADD, and each command of a client is one EVALSHA. It exits with 1 if a
client writes more than one card in a round, or sends more than that and its renewal.

``--virtual`` plays the clients in virtual time instead, without a server: so there may be 10,000.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.core.bench import Bench
from tests.support.patience import wait_until
from tests.support.servers import RedisServer

import interlock
from interlock._core.insight.card import CardWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

CLIENTS, LOCKS, ROUNDS = 200, 10, 5
LEASE = 30.0


def calls(server: RedisServer, command: str) -> int:
    """Return how often *server* has executed *command*."""
    with server.client() as client:
        stats = client.info("commandstats")
    found: int = stats.get(f"cmdstat_{command}", {"calls": 0})["calls"]
    return found


def virtual(clients: int, locks: int, rounds: int) -> tuple[int, int]:
    """Return the cards that so many clients write, and the most that one writes in a round."""
    total, most = 0, 0
    for _ in range(clients):
        bench = Bench()
        for lock in range(locks):
            bench.hold(f"lock:{lock}").since = bench.now
        writer = CardWriter(bench.session, {"host": "web-1", "pid": 1, "program": "orders"})
        for _ in range(rounds):
            end, written = bench.now + bench.session.watchdog.period, 0
            while bench.now < end:
                card = writer.look(bench.now)
                if card is not None:
                    writer.answered(card)
                    written += 1
                bench.now = min(writer.next_look(bench.now), end)
            total, most = total + written, max(most, written)
    return total, most


def main(words: Sequence[str] | None = None) -> int:
    """Count, print a line, and return 1 if there was too much."""
    parser = argparse.ArgumentParser(prog="python -m tests.operations.card_cost")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--locks", type=int, default=LOCKS, help="that each of them holds")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--lease", type=float, default=LEASE, help="seconds; a round is a third")
    parser.add_argument("--virtual", action="store_true")
    given = parser.parse_args(words)
    if given.virtual:
        total, most = virtual(given.clients, given.locks, given.rounds)
        print(
            f"{given.clients} clients with {given.locks} locks each, {given.rounds} rounds: "
            f"{total} cards, at most {most} of one client in a round"
        )
        return int(not total or most > 1)
    config = {"maxclients": 3 * given.clients + 100}
    with RedisServer(config=config) as server, ExitStack() as stack:
        for number in range(given.clients):
            client = stack.enter_context(interlock.connect(server.url(), lease=given.lease))
            for lock in range(given.locks):
                stack.enter_context(client.lock(f"{number}:{lock}"))
        wait_until(lambda: calls(server, "zadd") >= given.clients, given.lease, "all have cards")
        started = time.monotonic()
        before = calls(server, "zadd"), calls(server, "evalsha")
        time.sleep(given.rounds * given.lease / 3)  # what is sent in real time is counted
        after = calls(server, "zadd"), calls(server, "evalsha")
        # A round may be under way at each end.
        rounds = (time.monotonic() - started) / (given.lease / 3) + 1
    cards, commands = after[0] - before[0], after[1] - before[1]
    renewals = math.ceil(given.locks / 100)
    per_client = [each / given.clients for each in (cards, commands)]
    print(
        f"{given.clients} clients with {given.locks} locks each, {rounds - 1:.2f} rounds: "
        f"each wrote {per_client[0]:.2f} cards, of {per_client[1]:.2f} commands"
    )
    return int(not 0 < per_client[0] <= rounds or per_client[1] > rounds * (1 + renewals))


if __name__ == "__main__":
    sys.exit(main())
