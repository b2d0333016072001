"""The programs that the site shows for tasks; `tools/site_hooks.py` makes them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def hooks() -> Any:
    """Return the module of the site's hooks."""
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "tools" / "site_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def programs(library: str) -> dict[str, str]:
    """Return the programs of all pages for *library*, by page and number."""
    made = hooks()
    found: dict[str, str] = {}
    for page in sorted((ROOT / "docs").rglob("*.md")):
        blocks = [block for block in made.FENCE.findall(page.read_text()) if made.qualifies(block)]
        for number, block in enumerate(blocks):
            found[f"{page.relative_to(ROOT)}:{number}"] = made.face(block, library)
    return found
