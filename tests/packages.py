"""What tests need that no Python package brings, and which Debian package has it.

A test says so with the mark ``needs("postgresql")``. Files that cannot even be imported without it
are listed here. Tests without their needs are left out, and a line at the end names the packages.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import shutil
import sys
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.binary import binaries, has_tls, main_binary

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Need:
    """Something that a test needs.

    Attributes:
        package: The Debian package, or packages, that have it.
        there: Tells whether it is there.
        paths: Files and folders that cannot be imported without it.
    """

    package: str
    there: Callable[[], bool]
    paths: tuple[str, ...] = ()


def _postgresql() -> bool:
    servers = any(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or shutil.which("initdb")
    return bool(servers) and find_library("pq") is not None


def _compiled() -> bool:
    return importlib.util.find_spec("interlock._links._exchange") is not None


NEEDS = {
    "chromium": Need("chromium", lambda: Path("/usr/bin/chromium").is_file()),
    "gcc": Need("gcc libc6-dev python3-dev", _compiled),
    "go": Need("golang-go", lambda: shutil.which("go") is not None),
    "java": Need(
        "openjdk-17-jdk-headless maven",
        lambda: all(map(shutil.which, ("java", "javac", "mvn"))),
    ),
    "postgresql": Need(
        "postgresql",
        _postgresql,
        ("tests/fencing/test_fencing_sql.py", "tests/fencing/test_fencing_paused_holder.py"),
    ),
    "prometheus": Need("prometheus", lambda: all(map(shutil.which, ("prometheus", "promtool")))),
    "redis-7.0": Need("redis-server", lambda: "redis-7.0" in binaries()),
    "systemd": Need("systemd", lambda: shutil.which("systemd-analyze") is not None),
    "testsuite": Need(
        f"libpython{sys.version_info.major}.{sys.version_info.minor}-testsuite",
        lambda: importlib.util.find_spec("test.lock_tests") is not None,
        ("tests/cpython",),
    ),
    "valgrind": Need("valgrind gcc", lambda: all(map(shutil.which, ("valgrind", "gcc")))),
    "tls": Need("redis-server", lambda: has_tls(main_binary())),
}
"""Each need by its name. ``tls`` is a server with TLS built in: a `TlsFront` is not enough."""


def compiled_from_another_source() -> bool:
    """Tell whether the part in C is there, but was not compiled from the source that is here."""
    if not _compiled():
        return False
    part = importlib.import_module("interlock._links._exchange")
    source = (ROOT / "src/interlock/_links/_exchange.c").read_bytes()
    return part.__doc__ != hashlib.sha1(source, usedforsecurity=False).hexdigest()


@functools.cache
def missing() -> frozenset[str]:
    """Return the names of the needs that this machine lacks."""
    return frozenset(name for name, need in NEEDS.items() if not need.there())


def needed(path: Path) -> set[str]:
    """Return the needs without which *path* cannot be imported."""
    return {
        name
        for name, need in NEEDS.items()
        if any(path.is_relative_to(ROOT / folder) for folder in need.paths)
    }


def lacking(path: Path) -> set[str]:
    """Return those of `needed` that this machine lacks."""
    return needed(path) & missing()
