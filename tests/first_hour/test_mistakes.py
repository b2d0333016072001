"""The mistakes of the first hour: what their author reads is enough to go on."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.program import run

LONGEST = 15
"""Lines of the longest text that anybody has to read."""
SYNC = "import interlock\n\nclient = interlock.connect()\n"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One row of the table.

    Attributes:
        name: What it is about.
        program: A program of Python; or a command, as its words.
        says: What the user must read, each part of it.
        code: The exit code.
        never: What must not be read.
    """

    name: str
    program: str | tuple[str, ...]
    says: tuple[str, ...]
    code: int = 1
    never: tuple[str, ...] = ()


def sync(name: str, body: str, *says: str, code: int = 1) -> Mistake:
    """Return a mistake of a program for threads, with `client`."""
    return Mistake(name, SYNC + textwrap.dedent(body).strip() + "\n", says, code)


def program(name: str, body: str, *says: str, code: int = 1) -> Mistake:
    """Return a mistake of a program that stands alone."""
    return Mistake(name, textwrap.dedent(body).strip() + "\n", says, code)


def read(mistake: Mistake, folder: Path, url: str) -> tuple[int, str]:
    """Run the program of *mistake*, and return its exit code and what its author reads.

    ``URL_PORT`` in it stands for the port of a real server at *url*.
    """
    port = url.rpartition(":")[2].partition("/")[0]

    def real(text: str) -> str:
        return text.replace("URL_PORT", port)

    if isinstance(mistake.program, str):
        path = folder / "program.py"
        path.write_text(real(mistake.program))
        words = [sys.executable, str(path)]
    else:
        words = [sys.executable, "-m", "interlock", *map(real, mistake.program)]
    kept = {name: value for name, value in os.environ.items() if "INTERLOCK" not in name}
    environ = {**kept, "INTERLOCK_URL": url}
    done = run(*words, env=environ, cwd=folder, stdin=subprocess.DEVNULL)
    return done.returncode, done.stderr + done.stdout


def lines_of_ours(text: str) -> int:
    """Return how many lines of *text* are not frames of Python's own library, or of trio."""
    library = str(Path(asyncio.__file__).parents[1])
    count, inside = 0, False
    for told in text.strip().splitlines():
        line = re.sub(r"^ *\| ?", "", told)  # of a group of errors
        if line.lstrip().startswith('File "'):
            inside = f'File "{library}' in line and "site-packages" not in line
            inside = inside or "/site-packages/trio/" in line
        elif not line.startswith("    "):
            inside = False
        count += not inside
    return count


def _url(name: str, url: str, *says: str) -> Mistake:
    use = f'with interlock.connect("{url}") as client, client.lock("x"):\n    pass\n'
    return program(name, "import interlock\n\n" + use, *says)


TABLE = [
    program(
        "a decorator of the package",
        """
        import interlock
        @interlock.locked("x")
        def work(): ...
        """,
        "AttributeError",
        "use interlock.connect(url).locked(...)",
    ),
    sync("seconds in place of blocking", 'client.lock("a").acquire(5)', "timeout=seconds"),
    sync(
        "a release by another thread",
        """
        import threading
        lock = client.lock("x")
        lock.acquire()
        def release():
            try:
                lock.release()
            finally:
                lock.locked()
        thread = threading.Thread(target=release, name="another")
        thread.start()
        thread.join()
        lock.release()
        """,
        "NotHeldError",
        "thread 'another'",
        "held by thread 'MainThread' of this client",
        code=0,
    ),
    sync(
        "a timeout in milliseconds",
        """
        with client.lock("x", timeout=100000):
            pass
        """,
        "MisuseWarning",
        "is 1,667 minutes",
        "milliseconds",
        code=0,
    ),
    sync("a list of locks", 'client.multi_lock([client.lock("a"), client.lock("b")])', "*locks"),
    program(
        "a client of tasks under trio",
        """
        import interlock.asyncio, trio
        async def main():
            client = interlock.asyncio.connect()
            async with client.lock("x"):
                pass
        trio.run(main)
        """,
        "RuntimeError",
        "with trio, use a client of interlock.trio.connect()",
    ),
    program(
        "an acquire that is not awaited",
        """
        import asyncio, interlock.asyncio
        async def main():
            async with interlock.asyncio.connect() as client:
                client.lock("x").acquire()
        asyncio.run(main())
        """,
        "never awaited",
        code=0,
    ),
    _url("no scheme", "localhost:6379", "ConfigError", "redis://"),
    _url(
        "a cluster URL for a plain server",
        "redis+cluster://127.0.0.1:URL_PORT",
        "cluster",
        "redis://",
    ),
    program(
        "the port of a web server",
        """
        import http.server, threading, interlock
        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *args): ...
        server = http.server.HTTPServer(("127.0.0.1", 0), Quiet)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with interlock.connect(f"redis://127.0.0.1:{server.server_port}") as client:
            client.lock("x").acquire()
        """,
        "is not a Redis server",
    ),
    program(
        "no URL",
        """
        import os
        for name in ("INTERLOCK_URL", "REDIS_URL"):
            os.environ.pop(name, None)
        import interlock
        interlock.connect().close()
        """,
        "EmbeddedWarning",
        "only your processes on this machine share",
        "set INTERLOCK_URL",
        code=0,
    ),
    Mistake(
        "a command without a server",
        ("run", "--url", "redis://127.0.0.1:1", "job", "--", "true"),
        ("cannot connect to 127.0.0.1:1",),
        69,
    ),
    Mistake(
        "doctor without a server",
        ("doctor", "--url", "redis://127.0.0.1:1"),
        ("cannot connect to 127.0.0.1:1",),
        69,
        never=("ACL", "acl"),
    ),
]


@pytest.mark.parametrize("mistake", TABLE, ids=lambda mistake: mistake.name.replace(" ", "-"))
def test_a_mistake_is_told(mistake: Mistake, redis_url: str, tmp_path: Path) -> None:
    """The author of a mistake reads what is wrong and what to write, in a few lines."""
    code, text = read(mistake, tmp_path, redis_url)
    assert code == mistake.code, text
    for part in mistake.says:
        assert part in text
    for part in mistake.never:
        assert part not in text
    assert lines_of_ours(text) <= LONGEST, text
