"""Where an embedded server lives: a directory that only its user can enter.

A user who can write there can pretend to be the server, and the temporary directory belongs to
everybody. So a directory is used only if it is a real directory (no symbolic link), is ours, and is
closed to everyone else. Any other one is refused and never repaired: if a stranger made it, it may
already hold the stranger's files.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from pathlib import Path

from interlock.errors import ConfigError

_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9_.-]{1,32}")


def place_of(name: str) -> Path:
    """Return the private directory of the embedded server *name*, made where it is missing.

    Raises:
        ConfigError: the name is not allowed, or there is no directory that is safe to use.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name an embedded server: "
            "use 1 to 32 letters, digits, '_', '.' or '-' (not only dots)"
        )
    return private(private(_root() / f"interlock-{os.getuid()}") / name)


def private(directory: Path) -> Path:
    """Make *directory* for this user alone, or verify that it is so.

    Raises:
        ConfigError: it cannot be made, or somebody else could enter or own it.
    """
    try:
        with contextlib.suppress(FileExistsError):  # looked at below, like one just made
            directory.mkdir(mode=0o700)
        found = directory.lstat()
    except OSError as error:
        raise _none(error) from error
    if not stat.S_ISDIR(found.st_mode):
        wrong = "it is not a directory"
    elif found.st_uid != os.getuid():
        wrong = f"it belongs to user {found.st_uid}, not to {os.getuid()}"
    elif found.st_mode & 0o077:
        wrong = f"its mode is {stat.S_IMODE(found.st_mode):04o}, not 0700"
    else:
        return directory
    raise ConfigError(
        f"{directory} is not safe for the embedded server: {wrong}; "
        "remove it, or set XDG_RUNTIME_DIR"
    )


def _root() -> Path:
    """Return the directory that holds this user's servers.

    A process without XDG_RUNTIME_DIR (cron, `su`) still meets its user's other processes where
    systemd made ``/run/user/<uid>``. A directory of another user (left over from `su`) is passed
    over.

    Raises:
        ConfigError: there is no temporary directory that can be written.
    """
    for candidate in (os.environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{os.getuid()}"):
        with contextlib.suppress(OSError):  # missing or out of reach: as good as unset
            if Path(candidate).is_absolute() and Path(candidate).stat().st_uid == os.getuid():
                return Path(candidate)
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise _none(error) from error


def _none(error: OSError) -> ConfigError:
    return ConfigError(
        f"no directory for the embedded server: {error}; "
        "set XDG_RUNTIME_DIR to a writable directory of your own"
    )
