"""A runtime directory for each test, in which every server is stopped at the end."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interlock._embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Be a user with a fresh runtime directory, whose servers linger until the test is over."""
    monkeypatch.delenv("INTERLOCK_REDIS_SERVER", raising=False)
    monkeypatch.setenv("INTERLOCK_EMBEDDED_LINGER", "60")
    with tempfile.TemporaryDirectory(prefix="il-") as root:  # tmp_path is too long for a socket
        monkeypatch.setenv("XDG_RUNTIME_DIR", root)
        yield Path(root)
        for directory in Path(root).glob(f"interlock-{os.getuid()}/*"):
            EmbeddedServer(directory).stop()
