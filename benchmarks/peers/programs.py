"""Peers of other languages: Redisson on the JVM; rueidislock and redsync in Go.

Their agents are built from peers/java and peers/go by the first that is opened, which takes Maven
and Go, and the registries that these ask.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peer import ProgramPeer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.peer import Peer

_HERE = Path(__file__).parent
_JAVA, _GO = _HERE / "java", _HERE / "go"
# Builds that last: outside of the checkout, for each user.
_BUILT = Path(tempfile.gettempdir()) / f"interlock-benchmarks-{os.getuid()}"
_BUILDING = 600  # seconds
_WARM = 4.0  # seconds that the JVM is given


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


@functools.cache
def _build_java() -> None:
    _run(["mvn", "-q", "-B", "compile", f"-Dagent.target={_BUILT / 'java'}"], _JAVA)


@functools.cache
def _build_go() -> None:
    _run(["go", "build", "-o", _BUILT / "go-agent", "."], _GO)


def _java(name: str) -> ProgramPeer:
    classes = f"{_BUILT / 'java' / 'classes'}:{_BUILT / 'java' / 'lib'}/*"
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
        program=(str(_BUILT / "go-agent"),),
        build=_build_go,
        other={name: version},
    )


REDISSON = _java("redisson")
REDISSON_FAIR = _java("redisson fair")
RUEIDISLOCK = _go("rueidislock", {"evalsha": 2}, (), "1.0.79")
REDSYNC = _go("redsync", {"set": 1, "evalsha": 1}, (), "4.18.1")

PROGRAMS: tuple[Peer, ...] = (REDISSON, RUEIDISLOCK, REDSYNC)
