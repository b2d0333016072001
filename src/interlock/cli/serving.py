"""What `interlock exporter` and `interlock console` share: their extras, and how they end."""

from __future__ import annotations

import signal
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from interlock.cli.status import UsageError

if TYPE_CHECKING:
    from collections.abc import Generator


def need(extra: str, *modules: str) -> None:
    """Raise unless *modules* of *extra* are installed."""
    for module in modules:
        if find_spec(module) is None:
            raise UsageError(f"{module} is not installed: pip install 'interlock[{extra}]'")


@contextmanager
def until_signalled() -> Generator[None]:
    """Leave the block when a signal asks this process to end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        yield
