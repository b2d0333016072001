"""The agents in other languages: Redisson on the JVM, rueidislock in Go.

Each is built when it is first used, which takes Maven or Go and the registries that these ask.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

_HERE = Path(__file__).parent
_SOURCES = (".java", ".xml", ".go", ".mod", ".sum")
_BUILDING = 600.0
"""Seconds that a build may take."""

NAMES = ("redisson", "rueidislock")
WARMUP = {"redisson": 4.0}
"""Seconds that a peer takes to reach its speed."""


class BuildError(Exception):
    """An agent did not build; the message is the compiler's."""


def command(peer: str) -> list[str] | None:
    """Return what starts the agent of *peer*, built if need be; None for a peer in Python."""
    if peer == "redisson":
        place = _built("java", ("mvn", "-q", "-B", "compile", "-Dagent.target={place}"))
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        return ["java", quiet, "-cp", f"{place}/classes:{place}/lib/*", "benchmarks.Agent"]
    if peer == "rueidislock":
        return [f"{_built('go', ('go', 'build', '-o', '{place}/agent', '.'))}/agent"]
    return None


@functools.cache
def _built(language: str, words: tuple[str, ...]) -> Path:
    """Build the program in the folder *language*; return where it is.

    That is outside of the checkout, so that it lasts, and named after its source and its user.
    """
    source = _HERE / language
    files = sorted(file for file in source.rglob("*") if file.suffix in _SOURCES)
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    home = Path(tempfile.gettempdir()) / f"interlock-benchmarks-{os.getuid()}"
    place = home / f"{language}-{digest[:12]}"
    place.mkdir(parents=True, exist_ok=True)
    done = place / "built"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be building it
        if not done.exists():
            run([word.format(place=place) for word in words], source)
            done.touch()
    return place


def run(words: list[str], where: Path) -> None:
    """Run a command that builds something.

    Raises:
        BuildError: It is missing, or it failed.
    """
    try:
        built = subprocess.run(
            words, cwd=where, capture_output=True, text=True, timeout=_BUILDING, check=False
        )
    except FileNotFoundError as missing:
        raise BuildError(f"{words[0]} is not installed") from missing
    if built.returncode:
        raise BuildError(f"{words[0]}: {(built.stdout + built.stderr)[:500]}")
