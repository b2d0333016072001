"""The page of troubleshooting has the messages as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import interlock

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
SOURCE = "\n".join(
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "src/interlock").rglob("*.py"))
)
JOINED = re.sub(r"\"\s*\n\s*f?\"", "", SOURCE)
"""The sources, with each text that stands in several lines made one."""
OF_THE_SYSTEM = ("Name or service not known",)


def _rows(heading: str) -> list[str]:
    """Return the first cells of the table below *heading*."""
    section = re.split(
        r"^##+ ", TEXT.partition(f"### {heading}")[2], maxsplit=1, flags=re.MULTILINE
    )
    return re.findall(r"^\| (.+?) \|", section[0], re.MULTILINE)[1:]


def _parts(row: str) -> list[str]:
    """Return what of *row* the library writes: without a host, and without the server's code."""
    plain = re.sub(r" \([A-Z]+\)$", "", row.replace("...: Connection refused", ""))
    return [re.sub(r" \([A-Z]+\)", "", part).strip() for part in plain.split(", ")]


ROWS = [
    *_rows("HoldLostError"),
    *_rows("ServerUnavailableError"),
    *_rows("MisuseWarning and EmbeddedWarning"),
]


def test_there_are_rows() -> None:
    """The tables of errors are found."""
    assert len(ROWS) >= 20


@pytest.mark.parametrize("row", [row for row in ROWS if row not in OF_THE_SYSTEM])
def test_a_message_is_in_the_source(row: str) -> None:
    """Each part of a message that the page quotes is written by the library."""
    for part in _parts(row):
        assert part in JOINED, part


@pytest.mark.parametrize("name", re.findall(r"^### (\w+Error)\b", TEXT, re.MULTILINE))
def test_an_error_is_there(name: str) -> None:
    """Each error with a section is an error of the library."""
    assert issubclass(getattr(interlock, name), interlock.InterlockError)
