"""A client on a platform that no server runs on: `python -m tests.platform_client [URL]`.

Threads and tasks lock, wait, renew and close. Without a URL the server is the fake of
`interlock.testing`, which is Python. It needs the extra `testing` and no other package.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from contextlib import nullcontext

import interlock
import interlock.asyncio
import interlock.testing
from interlock._links.resp import PARSER

LEASE = 2.0
TURNS = 5


class Place:
    """What one at a time may enter."""

    def __init__(self) -> None:
        self.inside = self.turns = 0

    def enter(self) -> None:
        assert self.inside == 0, "two are inside"
        self.inside += 1

    def leave(self) -> None:
        self.inside -= 1
        self.turns += 1


def threads(url: str) -> None:
    """Take turns in five threads, and hold a lock for longer than its lease."""
    place = Place()
    with interlock.connect(url, lease=LEASE) as client:

        def work() -> None:
            for _ in range(TURNS):
                with client.lock("threads", timeout=60):
                    place.enter()
                    place.leave()

        crowd = [threading.Thread(target=work) for _ in range(5)]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
        assert place.turns == 5 * TURNS
        with client.lock("long") as hold:
            time.sleep(1.5 * LEASE)  # longer than the lease: it is renewed
            hold.ensure()


async def tasks(url: str) -> None:
    """Take turns in five tasks."""
    place = Place()
    async with interlock.asyncio.connect(url, lease=LEASE) as client:

        async def work() -> None:
            for _ in range(TURNS):
                async with client.lock("tasks", timeout=60):
                    place.enter()
                    await asyncio.sleep(0)  # no time passes
                    place.leave()

        await asyncio.gather(*[work() for _ in range(5)])
        assert place.turns == 5 * TURNS


def main(urls: list[str]) -> None:
    with nullcontext(None) if urls else interlock.testing.fake() as client:
        url = urls[0] if client is None else client.url
        threads(url)
        asyncio.run(tasks(url))
    print(sys.platform, sys.version, "replies parsed in", PARSER)


if __name__ == "__main__":
    main(sys.argv[1:])
