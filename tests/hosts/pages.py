"""The programs of the how-to pages, as files."""

from __future__ import annotations

import re
from pathlib import Path

HOW_TO = Path(__file__).resolve().parents[2] / "docs/how-to"
_PROGRAM = re.compile(r"```\w+\n(?:#|//|;) (\S+\.\w+|crontab)\n(.*?)```", re.DOTALL)


def write_programs(page: str, directory: Path) -> None:
    """Write each block of *page* that begins with the name of its file into *directory*."""
    programs = _PROGRAM.findall((HOW_TO / page).read_text())
    assert programs, page
    for name, text in programs:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
