"""Credentials that change while a client lives: for ``connect(credentials=...)``.

A client asks for credentials before its first connection, and again before they end or when a
server refuses them. If they have changed, it logs in anew on its open connections.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from interlock.errors import ConfigError

Answer: TypeAlias = "tuple[str] | tuple[str, str] | tuple[str, str, float]"
"""``(password,)``, ``(username, password)``, or these two and for how many seconds they work."""


@runtime_checkable
class CredentialProvider(Protocol):
    """An object with the method of redis-py's `CredentialProvider`."""

    def get_credentials(self) -> Answer:
        """Return the credentials that work now; it may block, and is called in a thread."""
        ...


class FileCredentials:
    """The credentials in a file, which another program writes anew when they change.

    The file has one line with a password, or two lines: the name of a user, and the password.

    Args:
        path: the file. It is read again every second.
    """

    EVERY = 1.0
    """Seconds after which the file is read again."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileCredentials) and self._path == other._path

    def __hash__(self) -> int:
        return hash(self._path)

    def __repr__(self) -> str:
        return f"FileCredentials({str(self._path)!r})"

    def get_credentials(self) -> Answer:
        """Return what the file says now.

        Raises:
            ConfigError: it cannot be read, or has no password.
        """
        try:
            lines = self._path.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8"
            raise ConfigError(f"cannot read the credentials in {self._path}: {why}") from None
        while lines and not lines[-1]:
            del lines[-1]
        lines = [line.removesuffix("\r") for line in lines]
        if not 1 <= len(lines) <= 2 or not all(lines):  # noqa: PLR2004 - a user and a password
            raise ConfigError(
                f"{self._path} must have one line with a password, or two lines: the name of a "
                f"user, and the password; it has {len(lines)}"
            )
        return "" if len(lines) == 1 else lines[0], lines[-1], self.EVERY
