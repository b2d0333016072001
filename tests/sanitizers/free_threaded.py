"""Builds a Python without the interpreter lock (GIL), which ThreadSanitizer may watch.

``python -m tests.sanitizers.free_threaded [--sanitize]`` builds it from Debian's source, which
takes ten minutes on two cores, keeps it in ``~/.cache``, and prints how to test with it.
``nox -s free-threaded -P PYTHON -- --sanitize`` gives this module the arguments of pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
NEEDED = ("dpkg-dev", "gcc", "make", "libffi-dev", "libsqlite3-dev", "libssl-dev", "zlib1g-dev")
# On the CPython that gcc sanitizes, no lock was acquired within minutes.
WATCHED = ("clang-19", "llvm-19", "libclang-rt-19-dev")
WATCH = ("--with-thread-sanitizer", "CC=clang-19", "CXX=clang++-19", "OPT=-O2 -g -DNDEBUG")
KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"


def run(*command: str, place: Path | None = None) -> None:
    """Run a command, and end if it fails."""
    _ = subprocess.run(command, cwd=place, check=True)


def mirror() -> str:
    """Return the Debian mirror that apt is configured for: no other one is asked."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    lines = "\n".join(file.read_text() for file in files if file.is_file())
    found = re.search(
        r"^(?:URIs:|deb(?:\s+\[.*?\])?)\s+(\S+/debian/?)(?:\s|$)", lines, re.MULTILINE
    )
    if not found:
        raise LookupError("apt is configured for no Debian mirror")
    return found[1]


def fetch(work: Path) -> Path:
    """Unpack the source of Python 3.14 in Debian's unstable suite, and return its folder."""
    (work / "lists/partial").mkdir(parents=True)
    (work / "sid.list").write_text(f"deb-src [signed-by={KEY}] {mirror()} sid main\n")
    apt = (
        "apt-get",
        "-qq",
        f"-oDir::State::lists={work}/lists",
        "-oDir::Etc::sourceparts=/dev/null",
    )
    apt += (f"-oDir::Etc::sourcelist={work}/sid.list", "-oAcquire::Check-Valid-Until=false")
    run(*apt, "update")
    run(*apt, "source", "--download-only", "--tar-only", "python3.14", place=work)
    with tarfile.open(next(work.glob("*.orig.tar.*"))) as archive:
        archive.extractall(work / "source", filter="data")
    return next((work / "source").iterdir())


def build(*, watched: bool) -> Path:
    """Build a Python without the interpreter lock, and return its command."""
    place = CACHE / f"interlock-{'sanitized-' if watched else ''}free-threaded"
    run("apt-get", "update", "-qq")
    install = ("apt-get", "install", "-y", "-qq", "--no-install-recommends")
    run(*install, *NEEDED, *(WATCHED if watched else ()))
    with TemporaryDirectory() as work:
        source = fetch(Path(work))
        options = (f"--prefix={place}", "--disable-gil", *(WATCH if watched else ()))
        run("./configure", "--quiet", *options, place=source)
        run("make", "-s", f"-j{os.cpu_count()}", place=source)
        # A watched Python would compile the library for too long: it compiles what is imported.
        run(
            "make", "-s", "install", *(("COMPILEALL_OPTS=--help",) if watched else ()), place=source
        )
        if watched:
            known = source / "Tools/tsan/suppressions_free_threading.txt"
            shutil.copy(known, place / "suppressions.txt")
    return next(place.glob("bin/python3.*t"))


def watch(*arguments: str) -> int:
    """Run pytest on this Python; return its exit status, or 1 if ThreadSanitizer reports a race."""
    with TemporaryDirectory() as place:
        work = Path(place)
        # CPython's own list of the races that it knows of itself, and what that lacks.
        known = Path(sys.base_prefix, "suppressions.txt").read_text()
        known += (Path(__file__).parent / "cpython_races.txt").read_text()
        (work / "known").write_text(known)
        # The tests fork; what a child does after that is not watched.
        options = (
            f"suppressions={work}/known log_path={work}/race exitcode=0 history_size=4 "
            f"die_after_fork=0 external_symbolizer_path={shutil.which('llvm-symbolizer-19')}"
        )
        # There, each thread has an ident of its own.
        new = "tests/objects/alone/test_threads.py::test_new_threads_are_new_owners"
        command = [sys.executable, "-m", "pytest", "-o", "timeout=1200", "--deselect", new]
        environment = {**os.environ, "TSAN_OPTIONS": options}
        done = subprocess.run([*command, *arguments], env=environment, check=False)
        reports = [path.read_text() for path in sorted(work.glob("race.*"))]
    print(*reports, f"ThreadSanitizer reported {len(reports)} processes", sep="\n")
    return done.returncode or bool(reports)


if __name__ == "__main__":
    if sys.argv[1:] in ([], ["--sanitize"]):
        python = build(watched="--sanitize" in sys.argv)
        print(f"nox -s free-threaded -P {python}" + " -- --sanitize" * (len(sys.argv) - 1))
    else:
        sys.exit(watch(*sys.argv[1:]))
