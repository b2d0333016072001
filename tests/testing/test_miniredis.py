"""miniredis, a server in Go with a Lua of its own: each object does everything there.

It takes scripts that are sent to every other server, and is no fork of Redis. So it shows that the
scripts need nothing beyond the documented commands.
"""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.doings import DOINGS, two_clients

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).with_name("miniredis")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the URL of a miniredis, which is built first."""
    go, program = shutil.which("go"), tmp_path_factory.mktemp("miniredis") / "miniredis"
    assert go is not None
    build = [go, "build", "-o", str(program), "."]
    done = subprocess.run(build, cwd=SOURCE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        yield f"redis://{server.stdout.readline().strip()}"
        server.communicate()


@pytest.mark.needs("go")
@pytest.mark.timeout(300)  # the first build asks the module proxy
@pytest.mark.usefixtures("patient")
def test_every_object_does_everything(url: str) -> None:
    """Two clients contend for each object, and find out that nothing is missing."""

    def do(kind: str) -> None:
        with two_clients(url) as (client, other):
            DOINGS[kind](client, other)

    with ThreadPoolExecutor(len(DOINGS)) as threads:
        for done in [threads.submit(do, kind) for kind in DOINGS]:
            done.result()
