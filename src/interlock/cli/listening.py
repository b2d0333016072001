"""What commands that serve have in common: where they listen, what they need, how they end."""

from __future__ import annotations

import argparse
import signal
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from interlock.cli.reading import add_url
from interlock.cli.status import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 65535


class Address(NamedTuple):
    """Where to listen; an empty *host* means all IPv4 addresses."""

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


def configure(parser: argparse.ArgumentParser, default: Address) -> None:
    """Teach *parser* where to listen, by *default* there, and which servers to read."""
    parser.add_argument(
        "--listen",
        type=address,
        default=default,
        metavar="HOST:PORT",
        help=f"where to serve (default: {default.host}:{default.port}); "
        ":PORT is all IPv4 addresses",
    )
    add_url(parser)


def need(extra: str, *modules: str) -> None:
    """Raise unless *modules* of *extra* are installed.

    Raises:
        UsageError: one is missing.
    """
    if missing := [module for module in modules if find_spec(module) is None]:
        are = "is" if len(missing) == 1 else "are"
        names = ", ".join(missing)
        raise UsageError(f"{names} {are} not installed: pip install 'interlock[{extra}]'")


def cannot_listen(listen: Address, error: BaseException) -> UsageError:
    """Return the error for an address that is not ours, or taken."""
    return UsageError(f"cannot listen at {listen.host}:{listen.port}: {error}")


def on_end(end: Callable[[], object]) -> None:
    """Call *end* when a signal asks this process to end."""

    def handle(number: int, frame: object) -> None:
        del number, frame
        _ = end()

    for number in (signal.SIGINT, signal.SIGTERM):
        _ = signal.signal(number, handle)
