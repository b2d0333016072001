"""Record what Redisson does: ``python -m tests.interop.record`` writes ``fixtures/``.

Recording needs Java. Python plays along; a difference that `sequences.ON_PURPOSE` does not name
stops it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.servers import RedisServer

from . import fixtures
from .agent import Agent
from .java import NEW, java_agent
from .sequences import NAMES, SEQUENCES
from .stage import Stage

PEER = Path(__file__).with_name("peer.py")


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as logs,
        RedisServer() as server,
        java_agent(NEW, Path(logs, "java.log")) as java,
        Agent("sync", [sys.executable, str(PEER), "sync"], Path(logs, "python.log")) as python,
        server.client() as client,
    ):
        java.connect(addresses=[server.url()])
        python.connect(url=server.url())
        stage = Stage(client)
        for sequence, steps in SEQUENCES.items():
            states = [list(stage.play(agent, NAMES[0], steps)) for agent in (java, python)]
            fixtures.write(fixtures.path(sequence), fixtures.merged(sequence, *states))
            print(f"{sequence}: {len(steps)} steps")
        stage.close()
        fields = java.ask("t1", "hash", values=fixtures.HASHED)
        pairs = zip(fixtures.HASHED, fields, strict=True)
        fixtures.write(
            fixtures.FIELDS, ({"value": value, "field": field} for value, field in pairs)
        )


if __name__ == "__main__":
    main()
