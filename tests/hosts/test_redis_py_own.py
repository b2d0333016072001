"""redis-py's own tests of its lock, from its source distribution, run against our lock.

The differences that they may find are listed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.support.program import run

READS_THE_KEY = "reads the key with GET; ours is a hash, and its TTL is a renewed lease"
REPLACES_THE_CLOCK = (
    "replaces the clock of redis-py's module; ours waits for a message, not for a clock"
)

DIFFERENT = {
    "test_lock": READS_THE_KEY,
    "test_lock_token": READS_THE_KEY,
    "test_lock_token_thread_local_false": READS_THE_KEY,
    "test_context_manager": READS_THE_KEY,
    "test_blocking_timeout": REPLACES_THE_CLOCK,
}
ONLY_SYNC = {"test_context_manager_blocking_timeout": REPLACES_THE_CLOCK}
"""The tests that fail, and why; docs/coming/redis-py.md tells users of the differences."""

SYNC = """
import pytest, redis
def _get_client(cls, request, **options):
    client = cls.from_url({url!r}, **options)
    request.addfinalizer(client.close)
    client.flushdb()
    return client
@pytest.fixture
def r(request):
    return _get_client(redis.Redis, request)
"""
ASYNCIO = """
import pytest_asyncio, redis.asyncio
@pytest_asyncio.fixture
async def create_redis():
    made = []
    async def create(**options):
        made.append(redis.asyncio.Redis.from_url({url!r}, **options))
        await made[-1].flushdb()
        return made[-1]
    yield create
    for client in made:
        await client.aclose()
@pytest_asyncio.fixture
async def r(create_redis):
    return await create_redis()
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the directory of redis-py's tests, as pip has its source distribution."""
    where = tmp_path_factory.mktemp("redis-py")
    wanted = f"redis=={version('redis')}"
    options = "download --quiet --no-deps --no-build-isolation --no-binary redis --dest"
    pip = [sys.executable, "-m", "pip", *options.split(), str(where), wanted]
    subprocess.run(pip, check=True, timeout=100)
    with tarfile.open(next(where.glob("*.tar.gz"))) as archive:
        # Python 3.11.2, which Debian 12 has, knows no filters.
        archive.extractall(where, **{"filter": "data"} if hasattr(tarfile, "data_filter") else {})
    return next(where.glob("redis-*/tests"))


@pytest.mark.parametrize("face", ["sync", "asyncio"])
def test_the_tests_of_redis_py_pass_but_for_what_is_listed(
    face: str, sources: Path, redis_url: str, tmp_path: Path
) -> None:
    """Each of redis-py's tests of its lock passes with ours, or is listed with the reason."""
    asynchronous = face == "asyncio"
    text = (sources / ("test_asyncio/test_lock.py" if asynchronous else "test_lock.py")).read_text()
    ours = f"from interlock.{'asyncio.' * asynchronous}redis_py import Lock\n"
    text, changed = re.subn(r"from redis\.(asyncio\.)?lock import Lock\n", ours, text)
    assert changed == 1
    package = tmp_path / "own"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "test_lock.py").write_text(text)
    fixtures = (ASYNCIO if asynchronous else SYNC).format(url=redis_url)
    (package / "conftest.py").write_text(fixtures)
    # pytest's own tracebacks parse the sources; Python 3.11 fails at that now and then.
    options = "-q -rA -p no:cacheprovider --tb=native -o asyncio_mode=auto -c /dev/null --rootdir"
    # It must import the same library as this process, whatever else is installed.
    places = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    command = (sys.executable, "-m", "pytest", *options.split(), tmp_path, package)
    done = run(*command, limit=100, env={**places, "PYTEST_ADDOPTS": ""})
    outcomes = {
        name: outcome
        for outcome, name in re.findall(
            r"^(PASSED|FAILED|ERROR) \S+::(test_\w+)", done.stdout, re.MULTILINE
        )
    }
    passed = {name for name, outcome in outcomes.items() if outcome == "PASSED"}
    assert len(passed) >= 20, done.stdout
    different = DIFFERENT if asynchronous else DIFFERENT | ONLY_SYNC
    assert set(outcomes) - passed == set(different), done.stdout
