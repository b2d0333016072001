"""Where a subcommand that serves listens, and what it needs beside the core."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import NamedTuple

from interlock.cli.status import UsageError

_MOST = 65535


class Address(NamedTuple):
    """Where to listen; an empty *host* means all addresses."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Return whether only this machine reaches it."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


def address(text: str) -> Address:
    """Return the address that *text* means: ``:9464``, ``127.0.0.1:8700`` or ``[::1]:8700``.

    Raises:
        argparse.ArgumentTypeError: it means none.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > _MOST:
        raise argparse.ArgumentTypeError(f"wanted HOST:PORT or :PORT, found {text!r}")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def need(extra: str, *modules: str) -> None:
    """Raise unless *modules* of *extra* are installed.

    Raises:
        UsageError: one is missing.
    """
    if missing := [module for module in modules if find_spec(module) is None]:
        raise UsageError(f"{', '.join(missing)} is not installed: pip install 'interlock[{extra}]'")
