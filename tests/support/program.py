"""Programs that a test runs to their end."""

from __future__ import annotations

import subprocess
from typing import Any


def run(*words: object, limit: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command for *limit* seconds at most; return its exit code and what it wrote."""
    command = [str(word) for word in words]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=limit, **options
    )
