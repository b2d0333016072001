"""Peers of other languages: Redisson on the JVM; rueidislock and redsync in Go.

The first one that is opened builds its agent from peers/java or peers/go. That takes Maven or Go,
and the registries that these ask.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peer import ProgramPeer

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from benchmarks.peer import Peer

_HERE = Path(__file__).parent
_JAVA, _GO = _HERE / "java", _HERE / "go"
_SOURCES = (".java", ".xml", ".go", ".mod", ".sum")
_BUILDING = 600  # seconds
_WARM = 4.0  # seconds that the JVM is given


def _place(source: Path) -> Path:
    """Say where the program of *source* is built: outside of the checkout, to last, for each user.

    Named after what is built, for another checkout may have another program.
    """
    files = sorted(file for file in source.rglob("*") if file.suffix in _SOURCES)
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    user = f"interlock-benchmarks-{os.getuid()}"
    return Path(tempfile.gettempdir()) / user / f"{source.name}-{digest[:12]}"


_JAVA_BUILT, _GO_BUILT = _place(_JAVA), _place(_GO)


class BuildError(Exception):
    """An agent did not build; the message is the compiler's."""


def _run(command: Sequence[str | Path], where: Path) -> None:
    try:
        built = subprocess.run(
            command, cwd=where, capture_output=True, text=True, timeout=_BUILDING, check=False
        )
    except FileNotFoundError as missing:
        raise BuildError(f"{command[0]} is not installed") from missing
    if built.returncode:
        raise BuildError(f"{command[0]}: {(built.stdout + built.stderr)[:500]}")


@contextlib.contextmanager
def _alone(place: Path) -> Generator[None]:
    """Build while no other process does so at *place*."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@functools.cache
def _build_java() -> None:
    with _alone(_JAVA_BUILT):
        _run(["mvn", "-q", "-B", "compile", f"-Dagent.target={_JAVA_BUILT}"], _JAVA)


@functools.cache
def _build_go() -> None:
    with _alone(_GO_BUILT):
        fresh = _GO_BUILT / "new"
        _run(["go", "build", "-o", fresh, "."], _GO)
        fresh.replace(_GO_BUILT / "agent")  # at once: another process may be starting it


def _java(name: str) -> ProgramPeer:
    classes = f"{_JAVA_BUILT / 'classes'}:{_JAVA_BUILT / 'lib'}/*"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return ProgramPeer(
        name,
        (),
        {"evalsha": 2},
        program=("java", quiet, "-cp", classes, "benchmarks.Agent"),
        build=_build_java,
        leaves=("redisson_unlock_latch:",),  # for some seconds
        other={"redisson": "4.7.0"},
        warmup=_WARM,
    )


def _go(name: str, calls: dict[str, int], leaves: tuple[str, ...], version: str) -> ProgramPeer:
    return ProgramPeer(
        name,
        (),
        calls,
        leaves=leaves,
        program=(str(_GO_BUILT / "agent"),),
        build=_build_go,
        other={name: version},
    )


REDISSON = _java("redisson")
REDISSON_FAIR = _java("redisson fair")
RUEIDISLOCK = _go("rueidislock", {"evalsha": 2}, (), "1.0.79")
REDSYNC = _go("redsync", {"set": 1, "evalsha": 1}, (), "4.18.1")

PROGRAMS: tuple[Peer, ...] = (REDISSON, RUEIDISLOCK, REDSYNC)
